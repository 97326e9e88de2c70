//! Keeps a command in bounds: this process confines itself, and then becomes the command.
//!
//! Landlock takes away writing outside one directory, and signals to processes outside; a seccomp filter takes away sockets.
//! Neither can be undone by what runs afterwards. What the kernel cannot do is an error, not a smaller confinement.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, PathBeneath, PathFd, PathFdError, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

/// Needed at least: with it, truncating a file counts as writing it.
const LEAST: ABI = ABI::V3;
/// Devices that programs write to and that keep nothing.
const DEVICES: [&str; 3] = ["/dev/null", "/dev/zero", "/dev/full"];

/// Why a process cannot be confined.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    /// The directory cannot be opened.
    #[error("{} cannot be opened", path.display())]
    Directory {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: PathFdError,
    },
    /// Landlock is not there, or too old.
    #[error("this kernel cannot confine commands: Landlock of Linux 6.2 or newer is needed")]
    Landlock(#[source] RulesetError),
    /// Landlock is there but not in force.
    #[error("this kernel cannot confine commands: Landlock is not in force")]
    NotEnforced,
    /// The filter for sockets cannot be made.
    #[error("the filter for sockets cannot be made")]
    Filter(#[source] BackendError),
    /// The filter for sockets cannot be installed.
    #[error("this kernel cannot keep commands from the network: no seccomp filter can be installed")]
    Seccomp(#[source] seccompiler::Error),
}

/// From here on, this process and all it starts write beneath `directory` only, and talk to nobody if there is no `network`.
/// Unix sockets are closed to them in any case: behind one may be somebody who writes for them.
pub fn confine_this_process(directory: &Path, network: bool) -> Result<(), ConfineError> {
    let open =
        |path: &Path| PathFd::new(path).map_err(|source| ConfineError::Directory { path: path.to_owned(), source });
    let writing = AccessFs::from_write(LEAST);
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(writing)
        .map_err(ConfineError::Landlock)?
        .set_compatibility(CompatLevel::BestEffort)
        .scope(Scope::from_all(ABI::V6))
        .map_err(ConfineError::Landlock)?
        .create()
        .map_err(ConfineError::Landlock)?
        // A device made there would write elsewhere.
        .add_rule(PathBeneath::new(open(directory)?, writing & !(AccessFs::MakeChar | AccessFs::MakeBlock)))
        .map_err(ConfineError::Landlock)?;
    for device in DEVICES.map(Path::new).into_iter().filter(|device| device.exists()) {
        rules = rules.add_rule(PathBeneath::new(open(device)?, AccessFs::WriteFile)).map_err(ConfineError::Landlock)?;
    }
    let status = rules.restrict_self().map_err(ConfineError::Landlock)?;
    if status.ruleset == RulesetStatus::NotEnforced {
        return Err(ConfineError::NotEnforced);
    }
    seccompiler::apply_filter(&sockets(network)?).map_err(ConfineError::Seccomp)
}

/// Refuses to make sockets: all of them, or Unix sockets only. Pairs stay, both their ends are within; but not pairs for datagrams,
/// which can be sent to anybody.
fn sockets(network: bool) -> Result<BpfProgram, ConfineError> {
    /// The bits of a socket's type that are not flags.
    const KIND: u64 = 0xf;
    let when = |argument, operator, value: i32| {
        let value = value.cast_unsigned().into();
        let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value);
        condition.and_then(|is| SeccompRule::new(vec![is])).map_err(ConfineError::Filter)
    };
    // An empty list of rules means every call.
    let socket = if network { vec![when(0, SeccompCmpOp::Eq, libc::AF_UNIX)?] } else { Vec::new() };
    // Rings of requests to the kernel would go past a filter of calls.
    let pairs = vec![when(1, SeccompCmpOp::MaskedEq(KIND), libc::SOCK_DGRAM)?];
    let rules = BTreeMap::from([
        (libc::SYS_socket, socket),
        (libc::SYS_socketpair, pairs),
        (libc::SYS_io_uring_setup, Vec::new()),
    ]);
    let refused = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    let arch = std::env::consts::ARCH.try_into().map_err(ConfineError::Filter)?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, arch).map_err(ConfineError::Filter)?;
    filter.try_into().map_err(ConfineError::Filter)
}
