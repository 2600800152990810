//! What is shown and selected, and what a key changes in it.

use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::widgets::TableState;

use super::act::Action;
use super::read::{Facts, Snapshot};
use crate::inspect::{DeadLetter, QueueStatus, Running, WorkerStatus};

/// A part of the screen that can be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tab {
    Queues,
    Workers,
    Calls,
    Dead,
}

pub(super) const TABS: [(Tab, &str); 4] = [
    (Tab::Queues, "Queues"),
    (Tab::Workers, "Workers"),
    (Tab::Calls, "Running calls"),
    (Tab::Dead, "Dead letters"),
];

/// What lies over the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Over {
    Nothing,
    Help,
    /// More about what is selected.
    Details,
    Filter,
    Question(Action),
}

/// What follows from a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Stay,
    Quit,
    Do(Action),
}

#[derive(Debug)]
pub(super) struct Model {
    pub(super) by: String,
    /// What was read last.
    pub(super) facts: Option<Facts>,
    /// Why it is old.
    pub(super) trouble: Option<String>,
    pub(super) tab: Tab,
    pub(super) over: Over,
    pub(super) filter: String,
    /// What was done last, and whether that went well.
    pub(super) said: Option<Result<String, String>>,
    pub(super) selected: TableState,
}

impl Model {
    pub(super) fn new(by: String) -> Self {
        Self {
            by,
            facts: None,
            trouble: None,
            tab: Tab::Queues,
            over: Over::Nothing,
            filter: String::new(),
            said: None,
            selected: TableState::default().with_selected(0),
        }
    }

    pub(super) fn take(&mut self, snapshot: Snapshot) {
        match snapshot {
            Ok(facts) => (self.facts, self.trouble) = (Some(facts), None),
            Err(trouble) => self.trouble = Some(trouble),
        }
        self.keep_in_range();
    }

    pub(super) fn say(&mut self, text: &str) {
        self.said = Some(Ok(text.to_owned()));
    }

    pub(super) fn told(&mut self, said: Result<String, String>) {
        self.said = Some(said);
    }

    fn fits(&self, texts: &[&str]) -> bool {
        self.filter.is_empty() || texts.iter().any(|text| text.contains(&self.filter))
    }

    pub(super) fn queues(&self) -> Vec<&QueueStatus> {
        let all = self.facts.iter().flat_map(|facts| &facts.queues);
        all.filter(|queue| self.fits(&[&queue.queue])).collect()
    }

    pub(super) fn workers(&self) -> Vec<&WorkerStatus> {
        let all = self.facts.iter().flat_map(|facts| &facts.workers);
        all.filter(|worker| {
            let host = worker.info.as_ref().map_or("", |info| info.host.as_str());
            self.fits(&[&worker.id, host, &worker.queues.join(" ")])
        })
        .collect()
    }

    /// Running calls, the longest first.
    pub(super) fn calls(&self) -> Vec<&Running> {
        let all = self.facts.iter().flat_map(|facts| &facts.workers).flat_map(|worker| &worker.running);
        let mut calls: Vec<&Running> = all
            .filter(|run| {
                let (task, id) = (run.message.task.as_deref(), run.message.call_id.as_deref());
                self.fits(&[&run.queue, &run.wire_id, task.unwrap_or_default(), id.unwrap_or_default()])
            })
            .collect();
        calls.sort_by_key(|run| run.started_ms.unwrap_or(u64::MAX));
        calls
    }

    pub(super) fn letters(&self) -> Vec<&DeadLetter> {
        let all = self.facts.iter().flat_map(|facts| &facts.letters);
        all.filter(|letter| {
            let task = letter.message.task.as_deref().unwrap_or_default();
            self.fits(&[&letter.queue, &letter.id, task, &letter.reason, &letter.detail])
        })
        .collect()
    }

    pub(super) fn length(&self) -> usize {
        match self.tab {
            Tab::Queues => self.queues().len(),
            Tab::Workers => self.workers().len(),
            Tab::Calls => self.calls().len(),
            Tab::Dead => self.letters().len(),
        }
    }

    fn keep_in_range(&mut self) {
        let last = self.length().saturating_sub(1);
        self.selected.select(Some(self.selected.selected().unwrap_or(0).min(last)));
    }

    fn place(&self) -> usize {
        self.selected.selected().unwrap_or(0)
    }

    /// What a key does to what is selected.
    fn action(&self, key: char) -> Option<Action> {
        let place = self.place();
        match (self.tab, key) {
            (Tab::Queues, 'p') => {
                let queue = *self.queues().get(place)?;
                let name = queue.queue.clone();
                Some(if queue.paused.is_some() { Action::Resume(name) } else { Action::Pause(name) })
            }
            (Tab::Calls, 'c') => {
                let run = *self.calls().get(place)?;
                Some(Action::Cancel { queue: run.queue.clone(), id: run.message.call_id.clone()? })
            }
            (Tab::Calls, 'K') => {
                let run = *self.calls().get(place)?;
                let id = run.message.call_id.clone().unwrap_or_else(|| run.wire_id.clone());
                Some(Action::Kill { queue: run.queue.clone(), id })
            }
            (Tab::Dead, 'r' | 'd') => {
                let letter = *self.letters().get(place)?;
                let (queue, letter) = (letter.queue.clone(), letter.id.clone());
                Some(match key {
                    'r' => Action::Requeue { queue, letter },
                    _ => Action::Delete { queue, letter },
                })
            }
            _ => None,
        }
    }

    pub(super) fn on(&mut self, event: &Event) -> Step {
        let Event::Key(KeyEvent { code, modifiers, kind: KeyEventKind::Press, .. }) = event else {
            return Step::Stay;
        };
        if *code == KeyCode::Char('c') && modifiers.contains(KeyModifiers::CONTROL) {
            return Step::Quit;
        }
        match std::mem::replace(&mut self.over, Over::Nothing) {
            Over::Question(action) => match code {
                KeyCode::Char('y' | 'Y') => return Step::Do(action),
                _ => self.say("not done"),
            },
            Over::Filter => self.edit(*code),
            Over::Help | Over::Details => {}
            Over::Nothing => return self.choose(*code),
        }
        Step::Stay
    }

    fn edit(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => {}
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Backspace => {
                self.filter.pop();
                self.over = Over::Filter;
            }
            KeyCode::Char(character) => {
                self.filter.push(character);
                self.over = Over::Filter;
            }
            _ => self.over = Over::Filter,
        }
        self.keep_in_range();
    }

    fn choose(&mut self, code: KeyCode) -> Step {
        match code {
            KeyCode::Char('q') | KeyCode::Esc => return Step::Quit,
            KeyCode::Char('?') => self.over = Over::Help,
            KeyCode::Char('/') => self.over = Over::Filter,
            KeyCode::Enter => self.over = Over::Details,
            KeyCode::Tab | KeyCode::Right => self.turn(1),
            KeyCode::BackTab | KeyCode::Left => self.turn(TABS.len() - 1),
            KeyCode::Char(digit @ '1'..='4') => self.go(digit as usize - '1' as usize),
            KeyCode::Down | KeyCode::Char('j') => self.select(self.place() + 1),
            KeyCode::Up | KeyCode::Char('k') => self.select(self.place().saturating_sub(1)),
            KeyCode::PageDown => self.select(self.place() + 10),
            KeyCode::PageUp => self.select(self.place().saturating_sub(10)),
            KeyCode::Home => self.select(0),
            KeyCode::End => self.select(usize::MAX - 1),
            KeyCode::Char(key) => match self.action(key) {
                Some(action) => self.over = Over::Question(action),
                None if key == 'c' && self.tab == Tab::Calls => {
                    self.told(Err("a call without an id cannot be cancelled".into()))
                }
                None => {}
            },
            _ => {}
        }
        Step::Stay
    }

    fn select(&mut self, place: usize) {
        self.selected.select(Some(place));
        self.keep_in_range();
    }

    fn turn(&mut self, by: usize) {
        let now = TABS.iter().position(|(tab, _)| *tab == self.tab).unwrap_or(0);
        self.go((now + by) % TABS.len());
    }

    fn go(&mut self, tab: usize) {
        self.tab = TABS[tab].0;
        self.select(0);
    }
}
