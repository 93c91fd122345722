//! What a check found, at one level of the compiler and over all of them.

use super::Verdict;
use crate::facts::Evidence;

/// What a check found.
pub struct Outcome {
    pub verdict: Verdict,
    pub says: String,
    pub evidence: Vec<Evidence>,
}

impl Outcome {
    pub fn pass(says: impl Into<String>, evidence: Vec<Evidence>) -> Self {
        Self { verdict: Verdict::Pass, says: says.into(), evidence }
    }

    pub fn fail(says: impl Into<String>, evidence: Vec<Evidence>) -> Self {
        Self { verdict: Verdict::Fail, says: says.into(), evidence }
    }

    /// The level has nothing to say about the claim.
    pub fn unknown(says: impl Into<String>) -> Self {
        Self { verdict: Verdict::NotObservable, says: says.into(), evidence: Vec::new() }
    }

    /// The level is there and should tell, but it could not be followed: what an earlier level promises is then no proof of
    /// what the compiler made of it.
    pub fn obscured(says: impl Into<String>) -> Self {
        Self { verdict: Verdict::Obscured, ..Self::unknown(says) }
    }

    /// Whether the claim is proven or refuted.
    pub fn is_conclusive(&self) -> bool {
        matches!(self.verdict, Verdict::Pass | Verdict::Fail)
    }

    /// One outcome from those of every level, latest first: a level that refutes a claim refutes it, whatever the
    /// others prove; a proof counts unless a level is obscured; a silent level changes nothing.
    pub fn over_levels(levels: impl IntoIterator<Item = Self>) -> Self {
        let weight = |outcome: &Self| match outcome.verdict {
            Verdict::Fail => 3,
            Verdict::Obscured => 2,
            Verdict::Pass => 1,
            Verdict::NotObservable => 0,
        };
        let heavier = |best: Self, next: Self| if weight(&next) > weight(&best) { next } else { best };
        levels.into_iter().reduce(heavier).unwrap_or_else(|| Self::unknown("there is nothing to look at"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refutation_wins_over_proofs_and_silence_loses_to_both() {
        let (pass, fail) = (|| Outcome::pass("", Vec::new()), || Outcome::fail("", Vec::new()));
        let (silent, obscured) = (|| Outcome::unknown(""), || Outcome::obscured("?"));
        let verdict = |levels: [Outcome; 3]| {
            let outcome = Outcome::over_levels(levels);
            (outcome.verdict, outcome.says)
        };
        assert_eq!(verdict([pass(), fail(), silent()]).0, Verdict::Fail);
        assert_eq!(verdict([obscured(), pass(), fail()]).0, Verdict::Fail);
        assert_eq!(verdict([silent(), pass(), silent()]).0, Verdict::Pass);
        assert_eq!(verdict([pass(), obscured(), silent()]), (Verdict::Obscured, "?".to_owned()));
        assert_eq!(verdict([silent(), silent(), silent()]).0, Verdict::NotObservable);
    }
}
