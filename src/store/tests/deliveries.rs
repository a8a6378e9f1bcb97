//! Deliveries.
