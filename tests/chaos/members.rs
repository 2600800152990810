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
    /// Run in this process and are a member for the sake of their network; with a Cluster, one that has a process of its own.
    Producers,
    /// The nodes of a Cluster.
    Nodes,
}

/// Who is in the fleet: its name, its role, by how many seconds its clock differs, and whether it is a witness, who
/// lives all along and whose descriptors are counted.
pub(crate) const MEMBERS: [(&str, Role, i32, bool); 15] = [
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
    ("nodes", Role::Nodes, 0, false),
];

/// Whether one of this role takes part. Neither Python nor Go follow slots that move.
pub(crate) fn takes_part(role: Role, is_cluster: bool) -> bool {
    match role {
        Role::Python | Role::Go | Role::PythonSweeper => !is_cluster,
        Role::Nodes => is_cluster,
        Role::Rust(_) | Role::OurSweeper | Role::Producers => true,
    }
}

/// Whom a fault of this kind may hit.
pub(crate) fn victims(kind: Kind, is_cluster: bool) -> Vec<usize> {
    let may = |(_, role, _, witness): &(&str, Role, i32, bool)| {
        let rust = matches!(role, Role::Rust(_));
        let foreign = matches!(role, Role::Python | Role::Go);
        match kind {
            Kind::KillWorker | Kind::StopWorker | Kind::EndWorker => rust && !witness,
            Kind::KillZygote => rust && !witness && *role != Role::Rust("inline"),
            Kind::KillForeign | Kind::StopForeign | Kind::EndForeign => foreign,
            Kind::KillSweeper => matches!(role, Role::OurSweeper | Role::PythonSweeper),
            Kind::KillRedis | Kind::Stall => false,
            Kind::KillProducer | Kind::StopProducer => *role == Role::Producers,
            Kind::KillMaster | Kind::StopMaster | Kind::MoveSlot | Kind::CutNode => *role == Role::Nodes,
            Kind::Delay => rust || foreign,
            Kind::Swallow => rust,
            Kind::Cut | Kind::LoseReply | Kind::LoseRequest => rust || *role == Role::Producers,
            Kind::Double | Kind::Drop | Kind::Half => {
                rust || matches!(role, Role::OurSweeper | Role::Producers)
            }
        }
    };
    let all = 0..MEMBERS.len();
    all.filter(|at| takes_part(MEMBERS[*at].1, is_cluster) && may(&MEMBERS[*at])).collect()
}
