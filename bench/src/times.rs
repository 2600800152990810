//! Where does the time of a round go?

use std::time::{Duration, Instant};

/// What is worth telling.
const LONG: Duration = Duration::from_secs(5);

/// How long each system took in each part.
#[derive(Default)]
pub struct Times(Vec<(String, Duration)>);

impl Times {
    pub fn take(&mut self, part: &str, system: &str, measure: impl FnOnce()) {
        let began = Instant::now();
        measure();
        self.0.push((format!("{part}, {system}"), began.elapsed()));
    }

    /// The longest first.
    pub fn tell(mut self) {
        let all: Duration = self.0.iter().map(|(_, took)| *took).sum();
        eprintln!("the round took {:.0} s", all.as_secs_f64());
        self.0.retain(|(_, took)| *took > LONG);
        self.0.sort_by_key(|(_, took)| std::cmp::Reverse(*took));
        for (what, took) in self.0 {
            eprintln!("  {what}: {:.0} s", took.as_secs_f64());
        }
    }
}
