//! Numbers in sentences.

/// A number with its noun: `1 weight`, `2 weights`.
pub(super) fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// The verb for so many.
pub(super) fn are(count: u64) -> &'static str {
    if count == 1 { "is" } else { "are" }
}
