//! The parameters that a task declares.

/// A parameter that travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Param {
    /// Its name in Rust, which is also its keyword.
    pub name: &'static str,
    /// Its type as written.
    pub ty: &'static str,
    /// Whether it may be missing.
    pub presence: Presence,
}

/// A parameter, in this program or another.
#[cfg_attr(not(any(feature = "cli", feature = "gateway")), allow(dead_code))]
pub(crate) trait Parameter {
    /// Its name in Rust, which is also its keyword.
    fn name(&self) -> &str;
    /// Whether it may be missing.
    fn presence(&self) -> Presence;
}

impl Parameter for Param {
    fn name(&self) -> &str {
        self.name
    }

    fn presence(&self) -> Presence {
        self.presence
    }
}

/// Whether a parameter may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Presence {
    /// It must be there.
    Required,
    /// An `Option`, or a parameter with a default.
    Optional,
    /// The last one: takes a list, or all that is left.
    Variadic,
}
