//! Outcome of a check, at one compiler level and over all of them.

use super::Verdict;
use crate::facts::Evidence;

/// Outcome of a check.
pub(super) struct CheckOutcome {
    pub verdict: Verdict,
    pub says: String,
    pub evidence: Vec<Evidence>,
}

impl CheckOutcome {
    pub(super) fn pass(says: impl Into<String>, evidence: Vec<Evidence>) -> Self {
        Self { verdict: Verdict::Pass, says: says.into(), evidence }
    }

    pub(super) fn fail(says: impl Into<String>, evidence: Vec<Evidence>) -> Self {
        Self { verdict: Verdict::Fail, says: says.into(), evidence }
    }

    /// The level does not show the claim.
    pub(super) fn unknown(says: impl Into<String>) -> Self {
        Self { verdict: Verdict::NotObservable, says: says.into(), evidence: Vec::new() }
    }

    /// The level should show the claim but could not be analyzed, so an earlier level does not prove it
    /// either.
    pub(super) fn obscured(says: impl Into<String>) -> Self {
        Self { verdict: Verdict::Obscured, ..Self::unknown(says) }
    }

    /// Whether the claim is proven or refuted.
    pub(super) fn is_conclusive(&self) -> bool {
        matches!(self.verdict, Verdict::Pass | Verdict::Fail)
    }

    /// Combines the outcomes of all levels, latest first: a failure at any level fails; a proof counts unless
    /// a level is obscured; a level that does not show the claim changes nothing.
    pub(super) fn over_levels(levels: impl IntoIterator<Item = Self>) -> Self {
        let weight = |outcome: &Self| match outcome.verdict {
            Verdict::Fail => 3,
            Verdict::Obscured => 2,
            Verdict::Pass => 1,
            Verdict::NotObservable => 0,
        };
        let heavier = |best: Self, next: Self| if weight(&next) > weight(&best) { next } else { best };
        levels.into_iter().reduce(heavier).unwrap_or_else(|| Self::unknown("there are no dumps"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refutation_wins_over_proofs_and_silence_loses_to_both() {
        let (pass, fail) = (|| CheckOutcome::pass("", Vec::new()), || CheckOutcome::fail("", Vec::new()));
        let (silent, obscured) = (|| CheckOutcome::unknown(""), || CheckOutcome::obscured("?"));
        let verdict = |levels: [CheckOutcome; 3]| {
            let outcome = CheckOutcome::over_levels(levels);
            (outcome.verdict, outcome.says)
        };
        assert_eq!(verdict([pass(), fail(), silent()]).0, Verdict::Fail);
        assert_eq!(verdict([obscured(), pass(), fail()]).0, Verdict::Fail);
        assert_eq!(verdict([silent(), pass(), silent()]).0, Verdict::Pass);
        assert_eq!(verdict([pass(), obscured(), silent()]), (Verdict::Obscured, "?".to_owned()));
        assert_eq!(verdict([silent(), silent(), silent()]).0, Verdict::NotObservable);
    }
}
