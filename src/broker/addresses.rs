//! Reads an address that names several servers: the nodes of a Cluster, or Sentinels.

use crate::broker::error::{BrokerError, BrokerErrorKind};
use crate::broker::node::Node;
use crate::config::RedisConfig;

/// The port of a Sentinel if the address has none.
const SENTINEL_PORT: u16 = 26_379;

/// What an address names.
pub(super) enum Address {
    /// One server.
    Server(Node),
    /// Nodes of a Cluster.
    Cluster(Vec<Node>),
    /// Sentinels, the name of the master that they watch, and how to connect to it.
    Sentinels { sentinels: Vec<Node>, name: String, master: Node },
}

/// The parts of an address with several hosts.
struct Parts<'a> {
    /// The scheme of a single server.
    scheme: &'a str,
    login: Option<&'a str>,
    hosts: Vec<&'a str>,
    path: &'a str,
    query: &'a str,
}

/// Reads the settings without connecting.
pub(super) fn read(config: &RedisConfig) -> Result<Address, BrokerError> {
    let scheme = config.url.split_once("://").map_or("", |(scheme, _)| scheme.trim()).to_ascii_lowercase();
    match scheme.split_once(['+', '-']) {
        Some((scheme, "cluster")) => cluster(config, &Parts::read(config, scheme)?),
        Some((scheme, "sentinel")) => sentinels(config, &Parts::read(config, scheme)?),
        _ => Node::new(config).map(Address::Server),
    }
}

fn cluster(config: &RedisConfig, parts: &Parts<'_>) -> Result<Address, BrokerError> {
    let nodes = parts.hosts.iter().map(|host| {
        let node =
            Node::new(&at(config, parts.url(parts.scheme, parts.login, host, parts.path, parts.query)))?;
        if node.client().get_connection_info().redis_settings().db() != 0 {
            return Err(refused(config, "a Redis Cluster has only the database 0: leave it out"));
        }
        Ok(node)
    });
    Ok(Address::Cluster(nodes.collect::<Result<_, _>>()?))
}

fn sentinels(config: &RedisConfig, parts: &Parts<'_>) -> Result<Address, BrokerError> {
    let name = parts.path.trim_matches('/');
    if name.is_empty() || name.contains('/') {
        return Err(refused(
            config,
            "name the master that the Sentinels watch, and its database: redis-sentinel://host:26379/mymaster?db=0",
        ));
    }
    let (mut user, mut password, mut scheme) = (String::new(), None, parts.scheme);
    let mut others = Vec::new();
    let parsed = redis::parse_redis_url(&format!("redis://host/?{}", parts.query));
    for (name, value) in parsed.iter().flat_map(|url| url.query_pairs()) {
        match &*name {
            "sentinel_user" => user = value.into_owned(),
            "sentinel_password" => password = Some(value.into_owned()),
            "sentinel_tls" => {
                scheme = match &*value {
                    "true" => "rediss",
                    "false" => "redis",
                    _ => return Err(refused(config, "`sentinel_tls` is `true` or `false`")),
                }
            }
            _ => others.push(format!("{name}={value}")),
        }
    }
    let sentinel = |host: &&str| {
        let host = if has_port(host) { (*host).to_owned() } else { format!("{host}:{SENTINEL_PORT}") };
        let plain = parts.url(scheme, None, &host, "", "");
        let Some(mut url) = redis::parse_redis_url(&plain) else { return Node::new(&at(config, plain)) };
        // An address with a host takes both.
        let _ = url.set_username(&user).and_then(|()| url.set_password(password.as_deref()));
        let mut config = at(config, url.to_string());
        if scheme == "redis" {
            (config.tls_ca, config.tls_cert, config.tls_key) = (None, None, None);
        }
        Node::new(&config)
    };
    let sentinels = parts.hosts.iter().map(sentinel).collect::<Result<_, _>>()?;
    let master = parts.url(parts.scheme, parts.login, "master", "", &others.join("&"));
    Ok(Address::Sentinels { sentinels, name: name.to_owned(), master: Node::new(&at(config, master))? })
}

impl<'a> Parts<'a> {
    fn read(config: &'a RedisConfig, scheme: &'a str) -> Result<Self, BrokerError> {
        let rest = config.url.split_once("://").map_or("", |(_, rest)| rest.trim_end());
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, behind) = rest.split_at(end);
        if behind.contains(['@', '#']) {
            let problem = "the user or password has a character that must be percent-encoded (/ ? # @ %), or a part \
                follows a #, which has no meaning here";
            return Err(refused(config, problem));
        }
        let (login, hosts) =
            authority.rsplit_once('@').map_or((None, authority), |(login, hosts)| (Some(login), hosts));
        let hosts: Vec<&str> = hosts.split(',').map(str::trim).filter(|host| !host.is_empty()).collect();
        if hosts.is_empty() {
            return Err(refused(config, "it names no host"));
        }
        let (path, query) = behind.split_once('?').unwrap_or((behind, ""));
        Ok(Self { scheme, login, hosts, path, query })
    }

    /// The address of a single server.
    fn url(&self, scheme: &str, login: Option<&str>, host: &str, path: &str, query: &str) -> String {
        let login = login.map(|login| format!("{login}@")).unwrap_or_default();
        let query = if query.is_empty() { String::new() } else { format!("?{query}") };
        format!("{scheme}://{login}{host}{path}{query}")
    }
}

/// Whether a host, which may be an IPv6 address in brackets, is followed by a port.
fn has_port(host: &str) -> bool {
    host.rsplit_once(']').map_or(host, |(_, behind)| behind).contains(':')
}

/// The same settings for another address.
fn at(config: &RedisConfig, url: String) -> RedisConfig {
    RedisConfig { url, ..config.clone() }
}

fn refused(config: &RedisConfig, problem: &str) -> BrokerError {
    BrokerError::new("connect", BrokerErrorKind::Address, format!("{problem}: {}", config.redacted_url()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(node: &Node) -> (Option<&str>, Option<&str>, i64) {
        let settings = node.client().get_connection_info().redis_settings();
        (settings.username(), settings.password(), settings.db())
    }

    #[test]
    fn cluster_is_read_with_all_of_its_hosts() {
        for url in
            ["redis+cluster://u:p%40@a:7000,b,[::1]:7002", "valkey-cluster://u:p%40@a:7000,b,[::1]:7002/"]
        {
            let Ok(Address::Cluster(nodes)) = read(&RedisConfig::new(url)) else { panic!("{url}") };
            let addresses: Vec<&str> = nodes.iter().map(Node::address).collect();
            assert_eq!(addresses, ["a:7000", "b:6379", "::1:7002"], "{url}");
            assert_eq!(login(&nodes[2]), (Some("u"), Some("p@"), 0), "{url}");
        }
    }

    #[test]
    fn sentinels_have_a_login_of_their_own() {
        let url = "redis-sentinel://u:p@a,b:7/main?db=3&sentinel_user=s&sentinel_password=x%2Fy%40";
        let Ok(Address::Sentinels { sentinels, name, master }) = read(&RedisConfig::new(url)) else {
            panic!()
        };
        let addresses: Vec<&str> = sentinels.iter().map(Node::address).collect();
        assert_eq!((addresses, name.as_str()), (vec!["a:26379", "b:7"], "main"));
        assert_eq!(login(&master), (Some("u"), Some("p"), 3));
        assert_eq!(login(&sentinels[1]), (Some("s"), Some("x/y@"), 0));
        let url = "redis+sentinel://:p@a/main";
        let Ok(Address::Sentinels { sentinels, master, .. }) = read(&RedisConfig::new(url)) else { panic!() };
        assert_eq!((login(&sentinels[0]), login(&master)), ((None, None, 0), (None, Some("p"), 0)));
    }

    #[cfg(feature = "tls")]
    #[test]
    fn tls_of_sentinels_follows_that_of_the_master_unless_it_is_set() {
        for (url, sentinel) in [
            ("rediss-sentinel://a/main", "a:26379 (TLS)"),
            ("rediss-sentinel://a/main?sentinel_tls=false", "a:26379"),
        ] {
            let Ok(Address::Sentinels { sentinels, master, .. }) = read(&RedisConfig::new(url)) else {
                panic!()
            };
            assert_eq!((sentinels[0].address(), master.address()), (sentinel, "master:6379 (TLS)"));
        }
    }

    #[test]
    fn address_of_several_servers_that_cannot_be_used_is_refused() {
        for (url, problem) in [
            ("redis+cluster://h/3", "only the database 0"),
            ("redis+cluster://h?db=3", "only the database 0"),
            ("redis+cluster://", "no host"),
            ("redis+cluster://u:se/cret@h", "percent-encoded"),
            ("redis+cluster://h?x=1", "the parameter `x` is unknown"),
            ("redis-sentinel://h", "name the master"),
            ("redis-sentinel://h/a/0", "name the master"),
            ("redis-sentinel://h/a?sentinel_tls=maybe", "`true` or `false`"),
            ("redis-sentinel://h/a?x=1", "the parameter `x` is unknown"),
            ("redis-sentinel://:se#cret@h/a", "percent-encoded"),
        ] {
            let Err(error) = read(&RedisConfig::new(url)) else { panic!("{url}") };
            assert_eq!(error.kind(), BrokerErrorKind::Address, "{url}");
            let text = error.to_string();
            assert!(text.contains(problem) && !text.contains("cret"), "{url}: {text}");
        }
    }
}
