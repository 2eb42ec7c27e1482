//! The last values that were made, each by what it was made of.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// The last `N` values.
#[derive(Debug)]
pub struct Recent<K, V, const N: usize = 16>(Mutex<VecDeque<(Arc<K>, Arc<V>)>>);

impl<K, V, const N: usize> Default for Recent<K, V, N> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K, V, const N: usize> Recent<K, V, N> {
    /// The value whose key `is` the one that is asked for, or what `make` makes.
    ///
    /// # Errors
    /// An error of `make`, of which nothing is remembered.
    pub fn get<E>(
        &self,
        is: impl Fn(&K) -> bool,
        make: impl FnOnce() -> Result<(K, V), E>,
    ) -> Result<Arc<V>, E> {
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Keys are large: nobody waits while they are compared.
        let all: Vec<_> = known().iter().cloned().collect();
        if let Some((_, found)) = all.into_iter().find(|(key, _)| is(key)) {
            return Ok(found);
        }
        let (key, value) = make()?;
        let (key, value) = (Arc::new(key), Arc::new(value));
        let mut known = known();
        known.truncate(N - 1);
        known.push_front((key, Arc::clone(&value)));
        Ok(value)
    }
}
