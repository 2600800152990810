//! Remembers who has logged in: a cookie with a name and an end, signed with a key that changes with the password.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::http::{HeaderMap, header};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::text::{percent_decoded, percent_encoded};
use super::users::DashboardUsers;

/// The name of the cookie.
const COOKIE: &str = "delayed_session";
/// For how long somebody stays logged in.
const LASTS: Duration = Duration::from_secs(12 * 60 * 60);

/// The value of a cookie by this name.
pub(super) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = all.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.into_iter().find_map(|(key, value)| (key == name).then_some(value))
}

/// The user whose session a request has.
pub(super) fn name_of(headers: &HeaderMap, users: &DashboardUsers) -> Option<String> {
    let value = cookie(headers, COOKIE)?;
    let (signed, signature) = value.rsplit_once('.')?;
    let (name, end) = signed.rsplit_once('.')?;
    let name = percent_decoded(name)?;
    let is_over = end.parse::<u64>().ok()? <= now();
    mac(users, &name, signed)?.verify_slice(&bytes(signature)?).ok()?;
    (!is_over).then_some(name)
}

/// The cookie of a user who has logged in, for pages below this path, and for encrypted connections only if it came over one.
pub(super) fn begin(users: &DashboardUsers, name: &str, base: &str, is_encrypted: bool) -> Option<String> {
    let signed = format!("{}.{}", percent_encoded(name), now() + LASTS.as_secs());
    let signature = mac(users, name, &signed)?.finalize().into_bytes();
    let signature: String = signature.iter().map(|byte| format!("{byte:02x}")).collect();
    let cookie = set(COOKIE, &format!("{signed}.{signature}"), base, LASTS.as_secs());
    Some(if is_encrypted { cookie + "; Secure" } else { cookie })
}

/// A cookie that takes the session away.
pub(super) fn end(base: &str) -> String {
    set(COOKIE, "", base, 0)
}

/// A cookie that no script sees, and that no other site sends along with what it posts.
pub(super) fn set(name: &str, value: &str, base: &str, seconds: u64) -> String {
    let path = if base.is_empty() { "/" } else { base };
    format!("{name}={value}; Path={path}; Max-Age={seconds}; HttpOnly; SameSite=Lax")
}

fn mac(users: &DashboardUsers, name: &str, signed: &str) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(&users.key(name)?).ok()?;
    mac.update(signed.as_bytes());
    Some(mac)
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let pair = |at| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
    hex.len().is_multiple_of(2).then(|| (0..hex.len()).step_by(2).map(pair).collect())?
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::users::Role;

    #[test]
    fn session_is_the_users_until_the_password_changes() {
        let line = |password| DashboardUsers::line("änn.b", Role::Viewer, password).unwrap();
        let users = DashboardUsers::parse(&line("one")).unwrap();
        let cookie = begin(&users, "änn.b", "/x", false).unwrap();
        let value = cookie.split(';').next().unwrap();
        let name = |cookie: &str, users: &DashboardUsers| {
            let mut headers = HeaderMap::new();
            headers.insert(header::COOKIE, format!("other=1; {cookie}").parse().unwrap());
            name_of(&headers, users)
        };
        assert_eq!(name(value, &users).as_deref(), Some("änn.b"));
        assert_eq!(name(value, &DashboardUsers::parse(&line("two")).unwrap()), None);
        let (signed, _) = value.rsplit_once('.').unwrap();
        for forged in [signed, &format!("{signed}."), &format!("{signed}.00"), &value[..value.len() - 1]] {
            assert_eq!(name(forged, &users), None, "{forged}");
        }
        let over = "delayed_session=%C3%A4nn.b.1.00";
        assert_eq!(name(over, &users), None);
    }
}
