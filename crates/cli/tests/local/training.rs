//! Real Paddle.
