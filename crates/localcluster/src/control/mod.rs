//! What a control plane does beside the API.
