//! Reads the settings and remembers where each comes from. File, then environment, then flags: the later one wins.

mod values;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::{Table, Value};

pub(super) use self::values::{default_of, value};
use crate::cli::args::{Args, Command};
use crate::cli::exit::Failure;
use crate::cli::suggest;
use crate::config::{Config, ConfigError, QueueWeight};

/// The file that is read when none is named.
const DEFAULT_FILE: &str = "delayed.toml";

/// The variable of many platforms for the address of Redis, used where there is none of ours.
const REDIS_URL: &str = "REDIS_URL";

/// Where a setting comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Origin {
    Default,
    File(PathBuf),
    Environment(&'static str),
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Environment(name) | Self::Flag(name) => f.write_str(name),
        }
    }
}

/// How the text of an environment variable is read.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Text,
    Number,
    Bool,
    /// Texts with commas between them.
    List,
}

/// A setting: its key in the file, its environment variable, and how that is read.
pub(super) struct Setting {
    pub(super) key: &'static str,
    pub(super) variable: &'static str,
    kind: Kind,
}

const fn setting(key: &'static str, variable: &'static str, kind: Kind) -> Setting {
    Setting { key, variable, kind }
}

/// All settings, in the order of the file.
pub(super) const ALL: [Setting; 43] = [
    setting("redis.url", "DELAYED_REDIS_URL", Kind::Text),
    setting("redis.timeout", "DELAYED_REDIS_TIMEOUT", Kind::Text),
    setting("redis.tls_ca", "DELAYED_REDIS_TLS_CA", Kind::Text),
    setting("redis.tls_cert", "DELAYED_REDIS_TLS_CERT", Kind::Text),
    setting("redis.tls_key", "DELAYED_REDIS_TLS_KEY", Kind::Text),
    setting("client.max_message", "DELAYED_MAX_MESSAGE", Kind::Number),
    setting("client.patience", "DELAYED_PATIENCE", Kind::Text),
    setting("client.durability", "DELAYED_DURABILITY", Kind::Text),
    setting("worker.queues", "DELAYED_QUEUES", Kind::List),
    setting("worker.queue_limits", "DELAYED_QUEUE_LIMITS", Kind::List),
    setting("worker.concurrency", "DELAYED_CONCURRENCY", Kind::Number),
    setting("worker.prefetch", "DELAYED_PREFETCH", Kind::Text),
    setting("worker.lease", "DELAYED_LEASE", Kind::Text),
    setting("worker.shutdown", "DELAYED_SHUTDOWN", Kind::Text),
    setting("worker.unknown", "DELAYED_UNKNOWN", Kind::Text),
    setting("worker.retry", "DELAYED_RETRY", Kind::Number),
    setting("worker.retry_for", "DELAYED_RETRY_FOR", Kind::Text),
    setting("worker.backoff", "DELAYED_BACKOFF", Kind::Text),
    setting("worker.sweep", "DELAYED_SWEEP", Kind::Bool),
    setting("worker.burst", "DELAYED_BURST", Kind::Bool),
    setting("worker.keep_finished", "DELAYED_KEEP_FINISHED", Kind::Number),
    setting("worker.isolation", "DELAYED_ISOLATION", Kind::Text),
    setting("worker.timeout", "DELAYED_TIMEOUT", Kind::Text),
    setting("worker.grace", "DELAYED_GRACE", Kind::Text),
    setting("worker.limits.memory", "DELAYED_MEMORY", Kind::Text),
    setting("worker.limits.address_space", "DELAYED_ADDRESS_SPACE", Kind::Text),
    setting("worker.limits.cpu", "DELAYED_CPU", Kind::Text),
    setting("worker.limits.open_files", "DELAYED_OPEN_FILES", Kind::Number),
    setting("worker.limits.output", "DELAYED_OUTPUT", Kind::Text),
    setting("worker.limits.nice", "DELAYED_NICE", Kind::Number),
    setting("worker.limits.no_new_privileges", "DELAYED_NO_NEW_PRIVILEGES", Kind::Bool),
    setting("worker.limits.private_network", "DELAYED_PRIVATE_NETWORK", Kind::Bool),
    setting("worker.limits.private_mounts", "DELAYED_PRIVATE_MOUNTS", Kind::Bool),
    setting("prefork.children", "DELAYED_CHILDREN", Kind::Number),
    setting("prefork.max_tasks", "DELAYED_MAX_TASKS", Kind::Text),
    setting("prefork.max_memory", "DELAYED_MAX_MEMORY", Kind::Text),
    setting("sweeper.queues", "DELAYED_SWEEPER_QUEUES", Kind::List),
    setting("sweeper.interval", "DELAYED_SWEEPER_INTERVAL", Kind::Text),
    setting("sweeper.max_deaths", "DELAYED_MAX_DEATHS", Kind::Number),
    setting("dead.max_count", "DELAYED_DEAD_MAX_COUNT", Kind::Number),
    setting("dead.max_age", "DELAYED_DEAD_MAX_AGE", Kind::Text),
    setting("log.level", "DELAYED_LOG", Kind::Text),
    setting("log.format", "DELAYED_LOG_FORMAT", Kind::Text),
];

/// The settings that hold.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) config: Config,
    origins: BTreeMap<&'static str, Origin>,
}

/// A setting on the command line: its key, its flag, its value.
type Flag = (&'static str, &'static str, Value);

impl Settings {
    /// Reads the file, the environment and the flags.
    pub(super) fn load(args: &Args) -> Result<Self, Failure> {
        Self::read(args.global.config.as_deref(), &flags(args), |name| std::env::var_os(name))
    }

    fn read(
        file: Option<&Path>,
        flags: &[Flag],
        environment: impl Fn(&str) -> Option<std::ffi::OsString>,
    ) -> Result<Self, Failure> {
        let mut origins = BTreeMap::new();
        let (path, mut table) = read_file(file)?;
        for setting in ALL {
            if get(&table, setting.key).is_some() {
                origins.insert(setting.key, Origin::File(path.clone()));
            }
        }
        for setting in ALL {
            let given = |name| Some((name, environment(name).filter(|text| !text.is_empty())?));
            let common = (setting.key == "redis.url").then_some(REDIS_URL);
            let Some((variable, text)) = given(setting.variable).or_else(|| given(common?)) else { continue };
            let wrong = |problem: String| Failure::configuration(format!("{variable}: {problem}"));
            let text = text.into_string().map_err(|_| wrong("it is not UTF-8".into()))?;
            let value = setting.kind.read(&text).map_err(wrong)?;
            check(setting.key, &value).map_err(wrong)?;
            put(&mut table, setting.key, value);
            origins.insert(setting.key, Origin::Environment(variable));
        }
        for (key, flag, value) in flags {
            check(key, value).map_err(|problem| Failure::configuration(format!("{flag}: {problem}")))?;
            put(&mut table, key, value.clone());
            origins.insert(key, Origin::Flag(flag));
        }
        let config =
            Config::deserialize(table).map_err(|error| Failure::configuration(error.message().to_owned()))?;
        let settings = Self { config, origins };
        settings.config.validate().map_err(|error| settings.out_of_range(&error))?;
        Ok(settings)
    }

    /// Where a setting comes from.
    pub(super) fn origin(&self, key: &str) -> Origin {
        self.origins.get(key).cloned().unwrap_or(Origin::Default)
    }

    /// Whether somebody set it.
    pub(super) fn is_set(&self, key: &str) -> bool {
        self.origins.contains_key(key)
    }

    fn out_of_range(&self, error: &ConfigError) -> Failure {
        match self.origin(error.field) {
            Origin::Default => Failure::configuration(error.to_string()),
            origin => Failure::configuration(format!("{error} (set by {origin})")),
        }
    }
}

fn read_file(named: Option<&Path>) -> Result<(PathBuf, Table), Failure> {
    let path = named.unwrap_or(Path::new(DEFAULT_FILE));
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if named.is_none() && error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => {
            let problem = format!("the settings in {} cannot be read: {error}", path.display());
            return Err(Failure::configuration(problem));
        }
    };
    let wrong = |error: toml::de::Error| {
        Failure::configuration(format!(
            "{}: {}",
            path.display(),
            suggest::with_suggestion(&told(&error, &text))
        ))
    };
    // By itself first: only here an error knows its line.
    toml::from_str::<Config>(&text).map_err(wrong)?;
    let table = toml::from_str(&text).map_err(wrong)?;
    Ok((path.to_owned(), table))
}

/// What is wrong with a file, and the line; that is named only, and what is between quotes left out, where either may have a
/// password.
fn told(error: &toml::de::Error, text: &str) -> String {
    let whole = error.to_string();
    if !whole.contains('@') && !whole.contains("pass") {
        return whole.trim_end().to_owned();
    }
    let message = error.message();
    let message = match (message.find('"'), message.rfind('"')) {
        (Some(first), Some(last)) => format!("{}***{}", &message[..=first], &message[last..]),
        _ => message.to_owned(),
    };
    let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
    format!(
        "line {}, which is not shown because it may contain a password: {message}",
        before.matches('\n').count() + 1
    )
}

impl Kind {
    fn read(self, text: &str) -> Result<Value, String> {
        match self {
            Self::Text => Ok(Value::String(text.into())),
            Self::Number => {
                text.trim().parse().map(Value::Integer).map_err(|_| format!("{text:?} is not a whole number"))
            }
            Self::Bool => match text.trim() {
                "1" | "true" | "yes" => Ok(Value::Boolean(true)),
                "0" | "false" | "no" => Ok(Value::Boolean(false)),
                _ => Err(format!("{text:?} is neither true nor false")),
            },
            Self::List => {
                let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
                Ok(Value::Array(names.map(|name| Value::String(name.into())).collect()))
            }
        }
    }
}

/// The settings on the command line.
fn flags(args: &Args) -> Vec<Flag> {
    let mut flags: Vec<Flag> = Vec::new();
    let mut flag = |key, name, value: Option<Value>| flags.extend(value.map(|value| (key, name, value)));
    let text = |text: &Option<String>| text.clone().map(Value::String);
    let number = |number: Option<u32>| number.map(|number| Value::Integer(number.into()));
    let time = |time: Option<std::time::Duration>| {
        time.map(|time| Value::String(humantime::format_duration(time).to_string()))
    };
    let list = |names: Vec<String>| {
        (!names.is_empty()).then(|| Value::Array(names.into_iter().map(Value::String).collect()))
    };
    flag("redis.url", "--redis", text(&args.global.redis));
    flag("redis.tls_ca", "--tls-ca", text(&args.global.tls_ca));
    flag("redis.tls_cert", "--tls-cert", text(&args.global.tls_cert));
    flag("redis.tls_key", "--tls-key", text(&args.global.tls_key));
    flag("log.level", "--log-level", text(&args.global.log_level));
    flag("log.format", "--log-format", text(&args.global.log_format));
    flag("log.format", "--json", args.command.logs_json().then(|| Value::String("json".into())));
    if let Some(worker) = args.command.worker_flags() {
        flag("worker.queues", "--queue", list(worker.queues.clone()));
        flag("worker.queue_limits", "--queue-limit", list(worker.queue_limits.clone()));
        flag("worker.concurrency", "--concurrency", number(worker.concurrency));
        flag("worker.prefetch", "--prefetch", text(&worker.prefetch));
        flag("worker.lease", "--lease", time(worker.lease));
        flag("worker.shutdown", "--shutdown", time(worker.shutdown));
        flag("worker.unknown", "--unknown", text(&worker.unknown));
        flag("worker.retry", "--retry", worker.retry.map(Value::Integer));
        flag("worker.retry_for", "--retry-for", time(worker.retry_for));
        flag("worker.backoff", "--backoff", text(&worker.backoff));
        flag("worker.burst", "--burst", worker.burst.then_some(Value::Boolean(true)));
        flag("worker.sweep", "--no-sweep", worker.no_sweep.then_some(Value::Boolean(false)));
        flag("worker.keep_finished", "--keep-finished", number(worker.keep_finished));
        let isolated = &worker.isolated;
        flag("worker.isolation", "--isolation", text(&isolated.isolation));
        flag("worker.timeout", "--timeout", time(isolated.timeout));
        flag("worker.grace", "--grace", time(isolated.grace));
        let yes = |given: bool| given.then_some(Value::Boolean(true));
        flag("worker.limits.memory", "--memory", text(&isolated.memory));
        flag("worker.limits.address_space", "--address-space", text(&isolated.address_space));
        flag("worker.limits.cpu", "--cpu", time(isolated.cpu));
        flag("worker.limits.open_files", "--open-files", number(isolated.open_files));
        flag("worker.limits.output", "--output", text(&isolated.output));
        flag("worker.limits.nice", "--nice", number(isolated.nice));
        flag("worker.limits.no_new_privileges", "--no-new-privileges", yes(isolated.no_new_privileges));
        flag("worker.limits.private_network", "--private-network", yes(isolated.private_network));
        flag("worker.limits.private_mounts", "--private-mounts", yes(isolated.private_mounts));
        flag("prefork.children", "--children", number(isolated.children));
        flag("prefork.max_tasks", "--max-tasks", text(&isolated.max_tasks));
        flag("prefork.max_memory", "--max-memory", text(&isolated.max_memory));
    }
    if let Some(sweeper) = args.command.sweeper_flags() {
        flag("sweeper.interval", "--interval", time(sweeper.interval));
        flag("sweeper.max_deaths", "--max-deaths", number(sweeper.max_deaths));
    }
    flag("sweeper.queues", "--queue", list(swept(&args.command)));
    flags
}

/// The queues that are named for a sweeper; `config` takes them as a worker does, with weights.
fn swept(command: &Command) -> Vec<String> {
    match command {
        Command::Sweeper(sweeper) => sweeper.queues.iter().map(ToString::to_string).collect(),
        Command::Config(config) => {
            let queues = config.worker.queues.iter().filter_map(|queue| queue.parse::<QueueWeight>().ok());
            queues.map(|entry| entry.queue.to_string()).collect()
        }
        _ => Vec::new(),
    }
}

/// Reads a setting by itself: only here an error knows where it comes from.
fn check(key: &str, value: &Value) -> Result<(), String> {
    let mut alone = Table::new();
    put(&mut alone, key, value.clone());
    Config::deserialize(alone).map(drop).map_err(|error| error.message().to_owned())
}

fn get<'a>(table: &'a Table, key: &str) -> Option<&'a Value> {
    let (sections, name) = key.rsplit_once('.')?;
    sections.split('.').try_fold(table, |table, section| table.get(section)?.as_table())?.get(name)
}

fn put(table: &mut Table, key: &str, value: Value) {
    let (sections, name) = key.rsplit_once('.').expect("a setting stands in a section");
    let mut table = table;
    for section in sections.split('.') {
        let section = table.entry(section).or_insert_with(|| Value::Table(Table::new()));
        // What is no section was refused when it was read.
        let Value::Table(section) = section else { return };
        table = section;
    }
    table.insert(name.to_owned(), value);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    fn read(text: &str, flags: &[Flag], environment: &[(&str, &str)]) -> Result<Settings, String> {
        let file = file(text);
        let get =
            |name: &str| environment.iter().find(|(other, _)| *other == name).map(|(_, text)| (*text).into());
        Settings::read(Some(file.path()), flags, get).map_err(|failure| failure.text().to_owned())
    }

    #[test]
    fn a_flag_wins_over_the_environment_and_that_over_the_file() {
        let text = "[worker]\nconcurrency = 1\nlease = \"3s\"\nqueues = [\"a=2\"]\n";
        let environment = [("DELAYED_CONCURRENCY", "2"), ("DELAYED_QUEUES", "b, c"), ("DELAYED_LOG", "")];
        let flags = [("worker.concurrency", "--concurrency", Value::Integer(3))];
        let settings = read(text, &flags, &environment).unwrap();
        let worker = &settings.config.worker;
        assert_eq!((worker.concurrency, worker.lease), (3, std::time::Duration::from_secs(3)));
        assert_eq!(worker.queues.len(), 2);
        assert_eq!(settings.origin("worker.concurrency"), Origin::Flag("--concurrency"));
        assert_eq!(settings.origin("worker.queues"), Origin::Environment("DELAYED_QUEUES"));
        assert!(matches!(settings.origin("worker.lease"), Origin::File(_)));
        assert!(!settings.is_set("log.level"), "an empty variable is not set");
    }

    #[test]
    fn mistakes_are_told_with_their_place() {
        let error = read("[worker]\nlaese = \"3s\"\n", &[], &[]).unwrap_err();
        assert!(error.contains("line 2") && error.contains("laese"), "{error}");
        let error = read("", &[], &[("DELAYED_LEASE", "soon")]).unwrap_err();
        assert!(error.starts_with("DELAYED_LEASE: \"soon\" is not a duration"), "{error}");
        let error = read("", &[], &[("DELAYED_CONCURRENCY", "many")]).unwrap_err();
        assert_eq!(error, "DELAYED_CONCURRENCY: \"many\" is not a whole number");
        let error = read("", &[("worker.concurrency", "--concurrency", Value::Integer(0))], &[]).unwrap_err();
        assert_eq!(error, "worker.concurrency: 0 is not from 1 to 4096 (set by --concurrency)");
    }

    #[test]
    fn nested_section_takes_settings_from_every_source() {
        let text = "[worker.limits]\nmemory = 1024\nnice = 5\n[prefork]\nmax_tasks = 7\n";
        let environment = [("DELAYED_CPU", "1m"), ("DELAYED_NICE", "6"), ("DELAYED_MAX_TASKS", "never")];
        let flags = [("worker.limits.output", "--output", Value::String("1MB".into()))];
        let settings = read(text, &flags, &environment).unwrap();
        let limits = crate::isolation::Limits::NONE.with_memory(1024).with_nice(6);
        assert_eq!(settings.config.worker.limits, limits.with_cpu(60).with_output(1 << 20));
        assert_eq!(settings.config.prefork.max_tasks, None);
        assert!(matches!(settings.origin("worker.limits.memory"), Origin::File(_)));
        assert_eq!(settings.origin("worker.limits.nice"), Origin::Environment("DELAYED_NICE"));
        assert_eq!(settings.origin("worker.limits.output"), Origin::Flag("--output"));
        for (variable, text, problem) in [
            ("DELAYED_MEMORY", "1.5GB", "DELAYED_MEMORY: \"1.5GB\" is not an amount of bytes such as"),
            ("DELAYED_CPU", "1500ms", "DELAYED_CPU: 1.5s of CPU time is not whole seconds"),
            ("DELAYED_NICE", "20", "worker.limits.nice: it is not from 0 to 19 (set by DELAYED_NICE)"),
            ("DELAYED_OPEN_FILES", "15", "worker.limits.open_files: a process needs at least 16 descriptors"),
            (
                "DELAYED_OPEN_FILES",
                "2147483648",
                "worker.limits.open_files: 2147483648 is too large: a process has at most 2147483647",
            ),
            (
                "DELAYED_ISOLATION",
                "thread",
                "DELAYED_ISOLATION: \"thread\" is not one of inline, fork, prefork",
            ),
            ("DELAYED_MAX_TASKS", "often", "DELAYED_MAX_TASKS: \"often\" is neither a whole number nor"),
            (
                "DELAYED_TIMEOUT",
                "0s",
                "worker.timeout: 0ns is not above 0 and up to 365d (set by DELAYED_TIMEOUT)",
            ),
        ] {
            let error = read("", &[], &[(variable, text)]).unwrap_err();
            assert!(error.starts_with(problem), "{error}");
        }
    }

    #[test]
    fn every_setting_of_the_list_is_one_of_the_configuration() {
        for setting in ALL {
            let mut table = Table::new();
            put(&mut table, setting.key, Value::Table(Table::new()));
            let error = Config::deserialize(table).unwrap_err().to_string();
            assert!(!error.contains("unknown field"), "{}: {error}", setting.key);
        }
    }
}
