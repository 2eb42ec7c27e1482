//! hw-models.
