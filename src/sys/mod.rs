//! What does the operating system know of us?

/// The name of this host, or `unknown`.
#[must_use]
pub(crate) fn host() -> String {
    nix::unistd::gethostname()
        .ok()
        .and_then(|name| name.into_string().ok())
        .unwrap_or_else(|| "unknown".into())
}
