//! Programs that tests run and that are not the operator's.

use std::path::PathBuf;

/// Where they are, as `examples/install.sh` and `cargo xtask` have it.
pub fn cache() -> PathBuf {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let of_user = || {
        let home = || PathBuf::from(variable("HOME").unwrap()).join(".cache");
        let cache = variable("XDG_CACHE_HOME").map_or_else(home, PathBuf::from);
        cache.join("paddle-operator")
    };
    variable("PADDLE_OPERATOR_CACHE").map_or_else(of_user, PathBuf::from)
}

/// Something that `make examples` installs.
pub fn installed(name: &str) -> PathBuf {
    let path = cache().join(name);
    assert!(path.exists(), "no {}: run `make examples`", path.display());
    path
}
