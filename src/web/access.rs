//! Decides who may see the dashboard, and who may act.

use std::net::IpAddr;

use axum::http::HeaderMap;
use ipnet::IpNet;

use super::session;
use super::users::{DashboardUsers, Role};

/// Who may see a dashboard.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum DashboardAccess {
    /// Everybody who can reach it.
    Open,
    /// Those who log in with a password.
    Users(DashboardUsers),
    /// Those whom a proxy has authenticated, such as oauth2-proxy.
    Proxy {
        /// The header in which the proxy names them, such as `X-Forwarded-User`.
        header: String,
        /// The addresses of the proxy. Requests from elsewhere are refused.
        trusted: Vec<IpNet>,
        /// The names of those who may act. All others may only look.
        operators: Vec<String>,
    },
}

/// Who looks at a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Visitor {
    /// `None`: nobody asked.
    pub(super) name: Option<String>,
    pub(super) role: Role,
}

/// Why nobody may see a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stranger {
    /// They can log in.
    LogIn,
    /// The proxy has to name them.
    Unnamed,
}

impl DashboardAccess {
    /// Who sends a request with these headers from this address.
    pub(super) fn visitor(&self, headers: &HeaderMap, from: Option<IpAddr>) -> Result<Visitor, Stranger> {
        match self {
            Self::Open => Ok(Visitor { name: None, role: Role::Operator }),
            Self::Users(users) => {
                let name = session::name_of(headers, users).ok_or(Stranger::LogIn)?;
                let role = users.role(&name).ok_or(Stranger::LogIn)?;
                Ok(Visitor { name: Some(name), role })
            }
            Self::Proxy { header, trusted, operators } => {
                let is_trusted =
                    from.is_some_and(|from| trusted.iter().any(|net| net.contains(&from.to_canonical())));
                let mut names = headers.get_all(header).iter();
                let name = match (names.next(), names.next()) {
                    (Some(name), None) if is_trusted => name.to_str().ok().filter(|name| !name.is_empty()),
                    // Of two names, one may be the visitor's own.
                    _ => None,
                };
                let name = name.ok_or(Stranger::Unnamed)?.to_owned();
                let role = if operators.contains(&name) { Role::Operator } else { Role::Viewer };
                Ok(Visitor { name: Some(name), role })
            }
        }
    }

    /// The users that can log in.
    pub(super) fn users(&self) -> Option<&DashboardUsers> {
        match self {
            Self::Users(users) => Some(users),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxy_is_believed_from_its_addresses_alone() {
        let access = DashboardAccess::Proxy {
            header: "x-user".into(),
            trusted: vec!["10.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()],
            operators: vec!["ann".into()],
        };
        let visitor = |names: &[&str], from: Option<&str>| {
            let mut headers = HeaderMap::new();
            for name in names {
                headers.append("x-user", name.parse().unwrap());
            }
            access.visitor(&headers, from.map(|from| from.parse().unwrap()))
        };
        let of = |name: &str, role| Ok(Visitor { name: Some(name.to_owned()), role });
        assert_eq!(visitor(&["ann"], Some("10.1.2.3")), of("ann", Role::Operator));
        assert_eq!(visitor(&["bob"], Some("::ffff:10.1.2.3")), of("bob", Role::Viewer));
        assert_eq!(visitor(&["bob"], Some("::1")), of("bob", Role::Viewer));
        for (names, from) in [
            (&["ann"][..], Some("11.0.0.1")),
            (&["ann"], None),
            (&[], Some("10.1.2.3")),
            (&[""], Some("10.1.2.3")),
            (&["bob", "ann"], Some("10.1.2.3")),
        ] {
            assert_eq!(visitor(names, from), Err(Stranger::Unnamed), "{names:?} from {from:?}");
        }
    }
}
