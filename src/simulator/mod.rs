//! (under construction)
pub mod model;
