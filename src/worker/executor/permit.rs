//! Tracks whether the limits of a call let it run.

/// Whether the limits that a call names let it run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Permit {
    /// It is not known whether the call names any.
    Unasked,
    /// They were asked.
    Asked,
    /// They let it run.
    Granted,
}
