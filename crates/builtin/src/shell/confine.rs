//! Keeps a command in bounds: this process confines itself, and then becomes the command.
//!
//! Landlock takes away writing outside one directory, and signals to processes outside; a seccomp filter takes away sockets.
//! Neither can be undone by what runs afterwards. What the kernel cannot do is an error, not a smaller confinement.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, PathBeneath, PathFd, PathFdError, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
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

/// Returns whether this kernel can confine commands.
pub(crate) fn can_confine() -> bool {
    ruleset().is_ok()
}

fn ruleset() -> Result<RulesetCreated, RulesetError> {
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_write(LEAST))?
        .set_compatibility(CompatLevel::BestEffort)
        .scope(Scope::from_all(ABI::V6))?
        .create()
}

/// From here on, this process and all it starts write beneath `directory` only, or nowhere, and use no network unless `network`
/// is set. Unix sockets are closed to them in any case: the other end may be a process that writes for them.
pub fn confine_this_process(directory: Option<&Path>, network: bool) -> Result<(), ConfineError> {
    let open =
        |path: &Path| PathFd::new(path).map_err(|source| ConfineError::Directory { path: path.to_owned(), source });
    let mut rules = ruleset().map_err(ConfineError::Landlock)?;
    if let Some(directory) = directory {
        // A device made there would write elsewhere.
        let writing = AccessFs::from_write(LEAST) & !(AccessFs::MakeChar | AccessFs::MakeBlock);
        rules = rules.add_rule(PathBeneath::new(open(directory)?, writing)).map_err(ConfineError::Landlock)?;
    }
    for device in DEVICES.map(Path::new).into_iter().filter(|device| device.exists()) {
        rules = rules.add_rule(PathBeneath::new(open(device)?, AccessFs::WriteFile)).map_err(ConfineError::Landlock)?;
    }
    let status = rules.restrict_self().map_err(ConfineError::Landlock)?;
    if status.ruleset == RulesetStatus::NotEnforced {
        return Err(ConfineError::NotEnforced);
    }
    seccompiler::apply_filter(&calls(network, directory.is_some())?).map_err(ConfineError::Seccomp)
}

/// Calls that change what Landlock does not count as writing: permissions, owners, times and attributes of files.
const CHANGES: &[libc::c_long] = &[
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchmodat2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    // `setxattrat`, `removexattrat` and `file_setattr`: the same numbers on every machine.
    463,
    466,
    469,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
];
/// Requests of `ioctl` that set attributes of files: `FS_IOC_SETFLAGS` in both sizes, and `FS_IOC_FSSETXATTR`.
const FLAG_CHANGES: [i32; 3] = [0x4008_6602, 0x4004_6602, 0x401c_5820];
/// Older ones that newer machines do not have.
#[cfg(target_arch = "x86_64")]
const OLD_CHANGES: &[libc::c_long] =
    &[libc::SYS_chmod, libc::SYS_chown, libc::SYS_lchown, libc::SYS_utime, libc::SYS_utimes, libc::SYS_futimesat];
#[cfg(not(target_arch = "x86_64"))]
const OLD_CHANGES: &[libc::c_long] = &[];

/// Refuses to make sockets: all of them, or Unix sockets only. Pairs stay, both their ends are within; but not pairs for datagrams,
/// which can be sent anywhere. A command that writes nowhere changes nothing else of files either.
fn calls(network: bool, writes: bool) -> Result<BpfProgram, ConfineError> {
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
    let mut rules = BTreeMap::from([
        (libc::SYS_socket, socket),
        (libc::SYS_socketpair, pairs),
        (libc::SYS_io_uring_setup, Vec::new()),
    ]);
    if !writes {
        rules.extend(CHANGES.iter().chain(OLD_CHANGES).map(|call| (*call, Vec::new())));
        let flags = FLAG_CHANGES.map(|request| when(1, SeccompCmpOp::Eq, request));
        rules.insert(libc::SYS_ioctl, flags.into_iter().collect::<Result<_, _>>()?);
    }
    let refused = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    let arch = std::env::consts::ARCH.try_into().map_err(ConfineError::Filter)?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refused, arch).map_err(ConfineError::Filter)?;
    filter.try_into().map_err(ConfineError::Filter)
}
