//! Where do figures go? Into a file, with tables and a chart beside it; those that count into `docs` and the README.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::Value;

use crate::{chart, readme, scale, table};

/// Prints the tables, and writes figures, tables and chart beside each other.
pub fn save(figures: &Value, json: &Path) -> ExitCode {
    let (tables, chart) = match figures["kind"] == scale::KIND {
        true => (scale::markdown(figures), scale::svg(figures)),
        false => (table::markdown(figures), chart::svg(figures)),
    };
    print!("\n{tables}");
    let files = [
        (json.to_owned(), format!("{figures:#}\n")),
        (json.with_extension("md"), tables),
        (json.with_extension("svg"), chart),
    ];
    println!();
    for (path, text) in files {
        if let Err(problem) = write(&path, &text) {
            eprintln!("error: {problem}");
            return ExitCode::FAILURE;
        }
        println!("written: {}", path.display());
    }
    ExitCode::SUCCESS
}

/// Writes a file anew; whoever is stopped meanwhile leaves it as it was.
pub fn write(path: &Path, text: &str) -> Result<(), String> {
    let mut next = path.as_os_str().to_owned();
    next.push(".next");
    let written = std::fs::write(&next, text).and_then(|()| std::fs::rename(&next, path));
    written.map_err(|error| format!("{} cannot be written: {error}", path.display()))
}

/// `report [FILE] [--publish]`: tells a saved run again, and makes it the one of the documentation.
pub fn report(words: &[String]) -> ExitCode {
    let bench = Path::new(env!("CARGO_MANIFEST_DIR"));
    let named = words.iter().find(|word| !word.starts_with('-')).map(PathBuf::from);
    let json = named.unwrap_or_else(|| bench.join("figures.json"));
    let done = load(&json).and_then(|figures| {
        if !words.iter().any(|word| word == "--publish") {
            save(&figures, &json);
            return Ok(());
        }
        if figures["quick"] == true {
            return Err("a quick run has no figures that count".into());
        }
        let root = bench.parent().ok_or("bench lies in the repository")?;
        if figures["kind"] == scale::KIND {
            save(&figures, &root.join("docs/scaling.json"));
            return Ok(());
        }
        let section = readme::section(&figures)?;
        let path = root.join("README.md");
        let text = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
        let [before, _, behind] = readme::parts(&text).ok_or("the README does not say what it costs")?;
        save(&figures, &root.join("docs/benchmarks.json"));
        std::fs::write(&path, [before, &section, behind].concat()).map_err(|error| error.to_string())
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::FAILURE
        }
    }
}

/// A saved run.
pub fn load(path: &Path) -> Result<Value, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
}
