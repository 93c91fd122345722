//! The modules that a config lists as not quantized, matched as loaders do.

use std::collections::HashSet;

use globset::{Glob, GlobMatcher};
use regex::Regex;

/// Parsed entries of `modules_to_not_convert` or `ignore`.
#[derive(Debug, Default)]
pub(super) struct KeptModules<'a> {
    /// Whole parts of a name: `lm_head`, `self_attn.q_proj`, `model.layers.0`.
    names: HashSet<&'a str>,
    /// Names with `*`.
    globs: Vec<(&'a str, [GlobMatcher; 2])>,
    /// Entries of compressed-tensors that start with `re:`.
    patterns: Vec<(&'a str, Regex)>,
    /// Whether an entry cannot be parsed, so that any module may be listed.
    pub is_unknown: bool,
}

impl<'a> KeptModules<'a> {
    pub(super) fn new(entries: &'a [String]) -> Self {
        let mut kept = Self::default();
        for entry in entries.iter().map(String::as_str) {
            if let Some(pattern) = entry.strip_prefix("re:") {
                // As in Python's `re.match`, only the start is fixed.
                match Regex::new(&format!("^(?:{pattern})")) {
                    Ok(pattern) => kept.patterns.push((entry, pattern)),
                    Err(_) => kept.is_unknown = true,
                }
            } else if entry.contains('*') {
                // `model.layers.*.mlp` as a shell writes it, and `.*mlp` as a regular expression.
                let text = entry.replace("\\.", ".").replace(".*.", "*").replace(".*", "*");
                let glob = |text: &str| Glob::new(text).map(|glob| glob.compile_matcher());
                match (glob(entry), glob(&text)) {
                    (Ok(first), Ok(second)) => kept.globs.push((entry, [first, second])),
                    _ => kept.is_unknown = true,
                }
            } else {
                kept.names.insert(entry);
            }
        }
        kept
    }

    /// Finds the entry that keeps a module, or one that it is part of, from being quantized.
    pub(super) fn find(&self, module: &'a str) -> Option<&'a str> {
        let starts = || [0].into_iter().chain(module.match_indices('.').map(|(at, _)| at + 1));
        let ends = || module.match_indices('.').map(|(at, _)| at).chain([module.len()]);
        let parts =
            || starts().flat_map(|start| ends().filter(move |end| *end > start).map(move |end| start..end));
        let named = || parts().map(|part| &module[part]).find(|part| self.names.contains(part));
        let matched = || self.patterns.iter().find(|(_, pattern)| pattern.is_match(module));
        let globbed = || {
            let is_match = |glob: &GlobMatcher| ends().any(|end| glob.is_match(&module[..end]));
            self.globs.iter().find(|(_, globs)| globs.iter().any(is_match))
        };
        named().or_else(|| matched().map(|(entry, _)| *entry)).or_else(|| globbed().map(|(entry, _)| *entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_match_as_in_loaders() {
        let module = "model.layers.1.self_attn.q_proj";
        for (entry, is_match) in [
            ("q_proj", true),
            ("self_attn.q_proj", true),
            ("self_attn", true),
            ("model.layers.1", true),
            ("model.layers.*.self_attn.q_proj", true),
            ("*q_proj", true),
            ("model.layers.*", true),
            ("re:.*self_attn.*", true),
            (r"re:model\.layers\.\d+\.self_attn\.q_proj$", true),
            ("model.layers.10", false),
            ("model.layers.1.self_attn.q", false),
            ("proj", false),
            ("lm_head", false),
            ("*k_proj", false),
            ("re:self_attn", false),
            ("re:.*mlp.*", false),
        ] {
            let entries = [entry.to_owned()];
            let kept = KeptModules::new(&entries);
            assert_eq!(kept.find(module).is_some(), is_match, "{entry}");
            assert!(!kept.is_unknown, "{entry}");
        }
        // Python's look-ahead is not supported.
        assert!(KeptModules::new(&["re:(?!model)".to_owned()]).is_unknown);
    }
}
