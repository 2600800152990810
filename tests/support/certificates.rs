//! An authority of a test's own, which signs certificates: made by the command `openssl`.

use std::path::{Path, PathBuf};
use std::process::Command;

/// What the certificates are made by: an authority, and whoever has a name.
const SETTINGS: &str = "\
[req]
distinguished_name = name
[name]
[authority]
basicConstraints = critical, CA:TRUE
[localhost]
subjectAltName = DNS:localhost, IP:127.0.0.1
[elsewhere]
subjectAltName = DNS:redis.example.org
";

/// A certificate, its key, and the authority that signed it: files in PEM.
#[derive(Debug, Clone)]
pub(crate) struct Certificate {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) authority: PathBuf,
}

/// An authority, in a directory that goes with it.
#[derive(Debug)]
pub(crate) struct Authority {
    directory: tempfile::TempDir,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let this = Self { directory: super::directory() };
        std::fs::write(this.directory().join("settings"), SETTINGS).unwrap();
        this.openssl(
            "req -x509 -new -nodes -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -config settings \
             -extensions authority -days 2 -subj /CN=authority -keyout authority.key -out authority.pem",
        );
        this
    }

    /// Where its files are.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Its own certificate.
    pub(crate) fn pem(&self) -> PathBuf {
        self.directory().join("authority.pem")
    }

    /// A certificate for a name of the settings, which ends after so many days; 0 is this second.
    pub(crate) fn sign(&self, name: &str, days: u32) -> Certificate {
        self.openssl(&format!(
            "req -new -nodes -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -config settings -subj /CN={name} \
             -keyout {name}.key -out {name}.csr"
        ));
        self.openssl(&format!(
            "x509 -req -in {name}.csr -CA authority.pem -CAkey authority.key -CAcreateserial -days {days} \
             -extfile settings -extensions {name} -out {name}.pem"
        ));
        let file = |end: &str| self.directory().join(format!("{name}.{end}"));
        Certificate { cert: file("pem"), key: file("key"), authority: self.pem() }
    }

    fn openssl(&self, words: &str) {
        let output =
            Command::new("openssl").args(words.split_whitespace()).current_dir(self.directory()).output();
        let output =
            output.unwrap_or_else(|error| panic!("expected openssl (apt-get install openssl): {error}"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "expected `openssl {words}` to succeed:\n{said}");
    }
}
