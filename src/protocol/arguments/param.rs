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

/// Whether a parameter may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// It must be there.
    Required,
    /// An `Option`, or a parameter with a default.
    Optional,
    /// The last one: takes a list, or all that is left.
    Variadic,
}
