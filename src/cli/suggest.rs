//! Finds the name that was meant by a misspelled one.

use crate::cli::output;
use crate::cli::settings::ALL;

/// What the variables of all settings begin with.
const PREFIX: &str = "DELAYED_";

/// How much alike two names must be, from 0 to 1: a letter too many, too few or wrong in a short word.
const LIKENESS: f64 = 0.75;

/// The known name that is most like `name`, if one is enough so.
pub(super) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let like = |known| (strsim::normalized_damerau_levenshtein(name, known), known);
    let best = known.into_iter().map(like).max_by(|(one, _), (other, _)| one.total_cmp(other));
    best.filter(|(likeness, _)| *likeness >= LIKENESS).map(|(_, known)| known)
}

/// The queue that was meant by one that is not there. Those whose names differ in digits alone are several of a kind.
pub(super) fn nearest_queue<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let letters = |name: &str| name.replace(|c: char| c.is_ascii_digit(), "");
    nearest(name, known).filter(|known| letters(known) != letters(name))
}

/// A variable that no setting has, and the one that was meant.
pub(super) struct Misspelled {
    pub(super) name: String,
    pub(super) meant: String,
}

/// The variables of the environment that are nearly those of a setting. Others may be the program's own.
pub(super) fn misspelled_variables() -> Vec<Misspelled> {
    let known = || ALL.iter().filter_map(|setting| setting.variable.strip_prefix(PREFIX));
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    names
        .filter_map(|name| {
            let end = name.strip_prefix(PREFIX)?;
            if known().any(|known| known == end) {
                return None;
            }
            let meant = format!("{PREFIX}{}", nearest(end, known())?);
            Some(Misspelled { name: output::clean(&name), meant })
        })
        .collect()
}

/// Adds the name that was meant to a complaint such as "unknown field `a`, expected one of `b`, `c`".
pub(super) fn with_suggestion(problem: &str) -> String {
    let mut names = problem.split_once("unknown field").map(|(_, names)| names.split('`').skip(1).step_by(2));
    let meant = names.as_mut().and_then(|names| nearest(names.next()?, names));
    meant.map_or_else(
        || problem.to_owned(),
        |meant| format!("{}\ndid you mean `{meant}`?", problem.trim_end()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearly_a_queue_is_one_that_was_misspelled() {
        let known = ["default", "mail", "shard1"];
        for (name, meant) in
            [("mial", Some("mail")), ("defaul", Some("default")), ("shard2", None), ("else", None)]
        {
            assert_eq!(nearest_queue(name, known), meant, "{name}");
        }
    }
}
