//! What no container may ask of the kernel, whatever its rights: most of it needs
//! rights that containers don't have, but in a user namespace of its own a process has
//! all of them.

use std::collections::BTreeMap;
use std::io;

use nix::libc;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

/// Refused always.
const REFUSED: [libc::c_long; 22] = [
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_delete_module,
    libc::SYS_finit_module,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_init_module,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pivot_root,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setns,
    libc::SYS_swapon,
    libc::SYS_umount2,
    libc::SYS_userfaultfd,
];

/// Confines this process and all that it becomes or starts.
pub(super) fn confine() -> io::Result<()> {
    // Programs that are told that it is not there use the older call, whose flags can
    // be looked at.
    install([(libc::SYS_clone3, vec![])].into(), libc::ENOSYS)?;
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        REFUSED.into_iter().map(|call| (call, vec![])).collect();
    for call in [libc::SYS_clone, libc::SYS_unshare] {
        rules.insert(call, vec![with_new_user()?]);
    }
    install(rules, libc::EPERM)
}

fn with_new_user() -> io::Result<SeccompRule> {
    let flag = u64::from(libc::CLONE_NEWUSER.unsigned_abs());
    let is_set = SeccompCmpOp::MaskedEq(flag);
    let condition = SeccompCondition::new(0, SeccompCmpArgLen::Dword, is_set, flag);
    let condition = condition.map_err(io::Error::other)?;
    SeccompRule::new(vec![condition]).map_err(io::Error::other)
}

fn install(rules: BTreeMap<i64, Vec<SeccompRule>>, errno: i32) -> io::Result<()> {
    let refuse = SeccompAction::Errno(errno.unsigned_abs());
    let machine = std::env::consts::ARCH
        .try_into()
        .map_err(io::Error::other)?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, machine);
    let program: BpfProgram = filter
        .and_then(TryInto::try_into)
        .map_err(io::Error::other)?;
    seccompiler::apply_filter(&program).map_err(io::Error::other)
}
