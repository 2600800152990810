//! Who is there to be hit, and by what?

use super::plan::Kind;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// A Rust worker of this isolation.
    Rust(&'static str),
    Python,
    Go,
    OurSweeper,
    PythonSweeper,
    /// Runs in this process: a member for the sake of its network.
    Producers,
}

/// Who is in the fleet: its name, its role, by how many seconds its clock differs, and whether it is a witness, who
/// lives all along and whose descriptors are counted.
pub(crate) const MEMBERS: [(&str, Role, i32, bool); 14] = [
    ("inline-1", Role::Rust("inline"), 0, true),
    ("inline-2", Role::Rust("inline"), 7200, false),
    ("inline-3", Role::Rust("inline"), 0, false),
    ("fork-1", Role::Rust("fork"), 0, true),
    ("fork-2", Role::Rust("fork"), 0, false),
    ("prefork-1", Role::Rust("prefork"), 0, true),
    ("prefork-2", Role::Rust("prefork"), -7200, false),
    ("python-1", Role::Python, 0, false),
    ("python-2", Role::Python, 0, false),
    ("go-1", Role::Go, 0, false),
    ("go-2", Role::Go, 0, false),
    ("sweeper-1", Role::OurSweeper, 0, false),
    ("sweeper-2", Role::PythonSweeper, 0, false),
    ("producers", Role::Producers, 0, false),
];

/// Whom a fault of this kind may hit.
pub(crate) fn victims(kind: Kind) -> Vec<usize> {
    let may = |(_, role, _, witness): &(&str, Role, i32, bool)| {
        let rust = matches!(role, Role::Rust(_));
        let foreign = matches!(role, Role::Python | Role::Go);
        match kind {
            Kind::KillWorker | Kind::StopWorker | Kind::EndWorker => rust && !witness,
            Kind::KillZygote => rust && !witness && *role != Role::Rust("inline"),
            Kind::KillForeign | Kind::StopForeign | Kind::EndForeign => foreign,
            Kind::KillSweeper => matches!(role, Role::OurSweeper | Role::PythonSweeper),
            Kind::KillRedis => false,
            Kind::Delay => rust || foreign,
            Kind::Swallow => rust,
            Kind::Cut | Kind::LoseReply | Kind::LoseRequest => rust || *role == Role::Producers,
            Kind::Double | Kind::Drop | Kind::Half => {
                rust || matches!(role, Role::OurSweeper | Role::Producers)
            }
        }
    };
    (0..MEMBERS.len()).filter(|at| may(&MEMBERS[*at])).collect()
}
