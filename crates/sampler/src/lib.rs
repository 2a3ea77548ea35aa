//! Which files which training process reads, and in which order: Paddle's samplers, index for
//! index, and its data sets, file for file.
//!
//! [`Sampler`] says which indices a rank or a partition reads; [`enumerate`] says which file an
//! index is. Every server derives its own share; [`listing_crc32`] shows whether two of them saw
//! the same files.
//!
//! Nothing here does more than read directories and a list file.

mod crc32;
mod distributed;
mod enumerate;
mod error;
mod list;
mod mt19937;
mod tree;
mod within;

pub use crc32::listing_crc32;
pub use distributed::{MOST_REPLICAS, Sampler, SamplerError};
pub use enumerate::{Order, enumerate};
pub use error::EnumerateError;
