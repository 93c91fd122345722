//! Differences from each version to the next, collapsed.

use maud::{Markup, html};
use octile_dump::{compare, facts::Evidence};

use crate::{command::report::Step, print::compare::is_incomparable};

/// Lists one entry per step.
pub(super) fn list(steps: &[Step]) -> Markup {
    html! {
        @if !steps.is_empty() {
            h3 { "From each version to the next" }
            @for step in steps { (entry(step)) }
        }
    }
}

fn entry(step: &Step) -> Markup {
    let structure = &step.difference.structure;
    html! {
        details {
            summary {
                (step.before) " to " (step.after) ": "
                @if is_incomparable(structure) {
                    "nothing is comparable"
                } @else {
                    (structure.differences.len()) " parts differ, " (structure.alike) " are the same"
                }
            }
            ul.findings { @for part in &structure.differences { (difference(part)) } }
            @for sentence in &structure.not_compared { p.note { "Not compared: " (sentence) "." } }
        }
    }
}

fn difference(part: &compare::Difference) -> Markup {
    let place = |evidence: &Evidence| html! { span.place { (evidence.file) ":" (evidence.place) } };
    html! {
        li {
            @for says in &part.says { p { (prose(says)) "." } }
            p.note {
                @if let Some(before) = &part.before { "before " (place(before)) " " }
                @if let Some(after) = &part.after { "after " (place(after)) }
            }
        }
    }
}

/// Capitalizes a sentence and draws its arrows.
fn prose(sentence: &str) -> String {
    let sentence = sentence.replace("->", "\u{2192}");
    let mut rest = sentence.chars();
    rest.next().map_or(String::new(), |first| first.to_uppercase().chain(rest).collect())
}
