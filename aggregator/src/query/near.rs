//! Names that resemble a mistyped one.

/// The most names suggested.
const MOST: usize = 3;

/// A sentence that suggests the nearest of `names`; empty when none is near.
pub(super) fn suggestion<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> String {
    let allowed = (wanted.chars().count() / 4).clamp(1, 3);
    let mut near: Vec<(usize, &str)> = names
        .filter(|name| name.len().abs_diff(wanted.len()) <= allowed)
        .map(|name| (strsim::osa_distance(wanted, name), name))
        .filter(|&(distance, _)| distance <= allowed)
        .collect();
    near.sort_unstable();
    near.truncate(MOST);
    let near: Vec<String> = near.into_iter().map(|(_, name)| format!("`{name}`")).collect();
    match near.as_slice() {
        [] => String::new(),
        [one] => format!("; did you mean {one}?"),
        several => format!("; did you mean one of {}?", several.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_the_nearest_names() {
        let names = ["node1", "node2", "node10", "login"];
        assert_eq!(suggestion("nod1", names.into_iter()), "; did you mean `node1`?");
        assert_eq!(suggestion("node3", names.into_iter()), "; did you mean one of `node1`, `node2`?");
        assert_eq!(suggestion("storage", names.into_iter()), "");
    }
}
