//! The Debian package: are its files there, or made by `scripts/package`?

use std::process::Command;

use serde_json::Value;

use super::{strings, succeed};
use crate::support::process::DELAYED;
use crate::support::{directory, root};

/// The files of `[package.metadata.deb]`.
fn assets() -> Vec<String> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--no-deps", "--format-version=1", "--offline", "--manifest-path"]);
    let metadata: Value = serde_json::from_str(&succeed(cargo.arg(root().join("Cargo.toml")))).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let ours = packages.iter().find(|package| package["name"] == "delayed").unwrap();
    let assets = ours["metadata"]["deb"]["assets"].as_array().unwrap();
    assets.iter().map(|asset| strings(asset)[0].clone()).collect()
}

#[test]
fn files_of_the_package_exist_or_its_script_makes_them() {
    let script = std::fs::read_to_string(root().join("scripts/package")).unwrap();
    let assets = assets();
    assert!(assets.len() > 7, "{assets:?}");
    for asset in assets {
        if let Some(made) = asset.strip_prefix("target/package/") {
            let name = made.strip_suffix("/*.1").unwrap_or(made);
            match name.strip_prefix("delayed.") {
                Some(shell) => {
                    succeed(Command::new(DELAYED).args(["completions", shell]));
                    assert!(
                        script.contains(&format!(" {shell} ")) || script.contains(&format!(" {shell};")),
                        "{asset}"
                    );
                }
                None => assert!(script.contains(&format!("man \"$made/{name}\"")), "{asset}"),
            }
        } else if asset != "target/release/delayed" {
            let path = root().join(asset.trim_end_matches("*.service"));
            assert!(path.exists(), "expected {asset} of the package");
        }
    }
}

#[test]
fn manual_pages_of_the_package_are_read_without_warnings() {
    let directory = directory();
    succeed(Command::new(DELAYED).arg("man").arg(directory.path()));
    let mut pages = 0;
    for page in std::fs::read_dir(directory.path()).unwrap() {
        let page = page.unwrap().path();
        let mut man = Command::new("man");
        man.args(["--warnings", "-E", "UTF-8", "-l"])
            .arg(&page)
            .env("LC_ALL", "C.UTF-8")
            .env("MANWIDTH", "80");
        let shown = succeed(&mut man);
        assert!(shown.contains("SYNOPSIS") && !shown.contains("warning:"), "{}: {shown}", page.display());
        pages += 1;
    }
    assert!(pages > 40, "expected a page for each command, there are {pages}");
}
