//! Names of events, each kept once.

use std::collections::BTreeMap;

use crate::lanes::NameId;

/// Names, each once, in the order in which they came.
#[derive(Clone, Debug, Default)]
pub struct Names {
    list: Vec<Box<str>>,
    ids: BTreeMap<Box<str>, NameId>,
}

impl Names {
    /// The id of a name, which is added if it is new.
    pub fn id(&mut self, name: &str) -> NameId {
        if let Some(&id) = self.ids.get(name) {
            return id;
        }
        let id = NameId(self.list.len() as u32);
        self.list.push(name.into());
        self.ids.insert(name.into(), id);
        id
    }

    /// Number of names.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// The name behind an id.
    pub fn name(&self, id: NameId) -> &str {
        &self.list[id.0 as usize]
    }
}
