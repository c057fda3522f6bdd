//! The crates may depend on one another only along the flow of data.

#![allow(clippy::expect_used, reason = "a test stops where it fails")]

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, MetadataCommand};

/// Who may use whom outside tests. A crate that is not listed may use none of ours.
const ALLOWED: &[(&str, &[&str])] = &[
    ("gpufleet-model", &[]),
    ("gpufleet-proto", &["gpufleet-model"]),
    ("gpufleet-transport", &[]),
    ("dcgm-sys", &[]),
    ("gpufleet-backend", &["gpufleet-model"]),
    ("gpufleet-agent", &["gpufleet-backend", "gpufleet-model", "gpufleet-proto", "gpufleet-transport"]),
    ("gpufleet-aggregator", &["gpufleet-model", "gpufleet-proto", "gpufleet-transport"]),
    ("gpufleet-embed", &["gpufleet-agent", "gpufleet-aggregator", "gpufleet-model", "gpufleet-transport"]),
    ("gpuctl", &["gpufleet-embed", "gpufleet-model", "gpufleet-proto", "gpufleet-transport"]),
    ("gpufleet-fake-dcgm", &["dcgm-sys"]),
    ("gpufleet-fake-nvml", &[]),
    ("gpufleet-tests", &["gpufleet-fake-nvml", "gpufleet-model", "gpufleet-proto", "gpufleet-transport"]),
];

/// Libraries that only the named crates may use directly.
const RESERVED: &[(&str, &[&str])] = &[
    ("rustls", &["gpufleet-transport"]),
    ("tokio-rustls", &["gpufleet-transport"]),
    ("rcgen", &["gpufleet-transport"]),
    ("x509-parser", &["gpufleet-transport"]),
    ("dcgm-sys", &["gpufleet-backend", "gpufleet-fake-dcgm"]),
    ("nvml-wrapper", &["gpufleet-backend"]),
    ("nvml-wrapper-sys", &["gpufleet-backend", "gpufleet-fake-nvml"]),
    ("crossterm", &["gpuctl"]),
    ("ratatui", &["gpuctl"]),
];

fn dependencies(kinds: &[DependencyKind]) -> BTreeMap<String, BTreeSet<String>> {
    let metadata = MetadataCommand::new().no_deps().exec().expect("cargo metadata");
    metadata
        .packages
        .iter()
        .map(|package| {
            let names = package.dependencies.iter().filter(|d| kinds.contains(&d.kind)).map(|d| d.name.clone());
            (package.name.to_string(), names.collect())
        })
        .collect()
}

#[test]
fn our_crates_use_one_another_only_along_the_flow_of_data() {
    let allowed: BTreeMap<_, _> = ALLOWED.iter().copied().collect();
    let graph = dependencies(&[DependencyKind::Normal, DependencyKind::Build]);
    let mut wrong = Vec::new();
    for (name, uses) in &graph {
        let may = allowed.get(name.as_str()).unwrap_or_else(|| panic!("`{name}` is not in the allowed graph"));
        let ours = uses.iter().filter(|used| graph.contains_key(*used));
        wrong.extend(ours.filter(|used| !may.contains(&used.as_str())).map(|used| format!("{name} uses {used}")));
    }
    assert!(wrong.is_empty(), "not in the allowed graph: {wrong:?}");
}

#[test]
fn the_allowed_graph_names_only_crates_that_exist() {
    let graph = dependencies(&[DependencyKind::Normal]);
    for (name, may) in ALLOWED {
        for known in std::iter::once(name).chain(may.iter()) {
            assert!(graph.contains_key(*known), "`{known}` is in the allowed graph and not in the workspace");
        }
    }
}

#[test]
fn some_libraries_belong_to_one_crate() {
    for (name, uses) in dependencies(&[DependencyKind::Normal, DependencyKind::Build]) {
        for (library, owners) in RESERVED {
            assert!(!uses.contains(*library) || owners.contains(&name.as_str()), "`{name}` uses `{library}`");
        }
    }
}
