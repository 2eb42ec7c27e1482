//! Settings of techniques that leave more memory of GPUs free, for whoever looks for a step that
//! fits.

/// Settings with which a technique leaves more memory of GPUs free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saving {
    /// Key of the technique below `techniques`.
    pub technique: &'static str,
    /// Its settings as YAML; several, from the least memory saved, and time lost, to the most.
    pub settings: Vec<String>,
    /// Effect of the technique, as a clause: "layers compute their activations again".
    pub effect: &'static str,
}

impl Saving {
    /// One way to set a technique.
    pub fn new(technique: &'static str, settings: &str, effect: &'static str) -> Self {
        Self { technique, settings: vec![settings.to_owned()], effect }
    }
}
