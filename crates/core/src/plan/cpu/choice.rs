//! The choices that a CPU plan follows from, and which of them are worth measuring.

use serde::{Deserialize, Serialize};

use super::{CpuPlan, useful_threads};
use crate::{Problem, Strategy, device::cpu::Isa};

/// More threads than any machine has. A plan in a file must not ask for a longer search.
const MOST_THREADS: usize = 1 << 16;
/// More rows than a row block ever pays with.
const MOST_ROWS: usize = 1 << 13;
/// Scratch memory of a thread that no cache could hold.
const MOST_BYTES: usize = 64 << 20;

/// Cache blocks other than the default ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Blocking {
    /// Most rows of a row block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<usize>,
    /// Whether a row block's activations are decoded over all of K at once, or slab by slab.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole_k: Option<bool>,
}

impl Blocking {
    /// Whether nothing is chosen.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What a CPU plan of a problem follows from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuChoice {
    /// Instruction set.
    pub isa: Isa,
    /// Threads.
    pub threads: usize,
    /// Cache blocks.
    #[serde(default, skip_serializing_if = "Blocking::is_default")]
    pub blocking: Blocking,
}

impl CpuChoice {
    /// Whether the numbers are ones that a plan can be made of: a file may hold any.
    pub fn is_sane(&self) -> bool {
        let rows = self.blocking.rows.unwrap_or(1);
        (1..=MOST_THREADS).contains(&self.threads) && (1..=MOST_ROWS).contains(&rows)
    }

    /// Whether a machine with these ISAs and threads can multiply the problem so.
    pub fn fits(&self, problem: &Problem, isas: &[Isa], threads: usize) -> bool {
        self.is_sane()
            && isas.contains(&self.isa)
            && self.threads <= threads
            && CpuPlan::with_choice(*problem, Strategy::Strip, *self).thread_bytes() <= MOST_BYTES
    }

    /// Whether a search on a machine with these ISAs and threads could try the choice. The default ISA
    /// follows from rates that may be measured anew in every process, and its threads from the CPU design: a
    /// choice counts around each.
    pub fn is_candidate(&self, problem: &Problem, isas: &[Isa], threads: usize) -> bool {
        let is_only = isas == [Isa::Portable];
        let defaults = isas.iter().copied().filter(|&isa| is_only || isa != Isa::Portable);
        self.fits(problem, isas, threads)
            && defaults.into_iter().any(|isa| {
                let counts = [useful_threads(problem, isa, None, threads), 1, 2.min(threads), threads];
                let defaults = counts.map(|threads| Self { isa, threads, blocking: Blocking::default() });
                defaults.iter().any(|default| Self::around(problem, *default, isas, threads).contains(self))
            })
    }

    /// Choices worth measuring for packed weights, the default one first: every ISA, fewer threads, and
    /// around the default other row blocks and both ways along K. No two give the same kernel and blocks.
    pub fn candidates(problem: &Problem, default: Self, isas: &[Isa], threads: usize) -> Vec<Self> {
        let mut plans: Vec<CpuPlan> = Vec::new();
        let choices = Self::around(problem, default, isas, threads).into_iter();
        for choice in choices.filter(|choice| choice.fits(problem, isas, threads)) {
            let plan = CpuPlan::with_choice(*problem, Strategy::Strip, choice);
            if !plans.iter().any(|known| known.works_as(&plan)) {
                plans.push(plan);
            }
        }
        plans.iter().map(CpuPlan::choice).collect()
    }

    /// The same, with some that do not fit or that work as another does.
    fn around(problem: &Problem, default: Self, isas: &[Isa], threads: usize) -> Vec<Self> {
        let operand = Isa::Amx.operand(problem.x);
        let is_worth = |isa: &Isa| *isa != Isa::Portable && isa.is_candidate(operand);
        let mut choices = vec![default];
        for isa in [default.isa].into_iter().chain(isas.iter().copied().filter(is_worth)) {
            let useful = useful_threads(problem, isa, None, threads);
            let counts = [default.threads, threads, useful, threads.div_ceil(2), 1];
            choices.extend(counts.map(|threads| Self { isa, threads, blocking: Blocking::default() }));
        }
        let rows = CpuPlan::with_choice(*problem, Strategy::Strip, default).block_rows;
        for rows in [None, Some(rows.div_ceil(2)), Some(rows * 2), Some(rows * 4)] {
            for whole_k in [None, Some(false), Some(true)] {
                choices.push(Self { blocking: Blocking { rows, whole_k }, ..default });
            }
        }
        choices
    }
}

impl CpuPlan {
    /// Whether two plans of a problem run the same loops.
    fn works_as(&self, other: &Self) -> bool {
        let loops = |plan: &Self| (plan.isa, plan.workers(), plan.path, plan.block_rows, plan.pass_slabs);
        loops(self) == loops(other) && self.grid == other.grid && self.group_panels == other.group_panels
    }
}

/// `avx512bf16, 2 threads, row blocks of 256, K slab by slab`.
impl std::fmt::Display for CpuChoice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { isa, threads, blocking } = self;
        write!(f, "{isa}, {threads} thread{}", if *threads == 1 { "" } else { "s" })?;
        if let Some(rows) = blocking.rows {
            write!(f, ", row blocks of {rows}")?;
        }
        match blocking.whole_k {
            Some(true) => f.write_str(", all of K at once"),
            Some(false) => f.write_str(", K slab by slab"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ISAS: [Isa; 4] = [Isa::Portable, Isa::Avx2, Isa::Avx512, Isa::Amx];

    fn default(threads: usize) -> CpuChoice {
        CpuChoice { isa: Isa::Avx512, threads, blocking: Blocking::default() }
    }

    #[test]
    fn candidates_start_with_the_default_and_differ() {
        for shape in ["1x4096x4096:128", "64x512x512:128", "2048x2048x8192:128", "3x5x7:128"] {
            let problem: Problem = shape.parse().unwrap();
            let candidates = CpuChoice::candidates(&problem, default(4), &ISAS, 4);
            assert_eq!(candidates[0], default(4), "{shape}");
            assert!(candidates.iter().all(|choice| choice.fits(&problem, &ISAS, 4)), "{shape}");
            assert!((2..=40).contains(&candidates.len()), "{shape}: {}", candidates.len());
            let useful = default(useful_threads(&problem, Isa::Avx512, None, 4));
            for choice in CpuChoice::candidates(&problem, useful, &ISAS, 4) {
                assert!(choice.is_candidate(&problem, &ISAS, 4), "{shape}: {choice}");
            }
            for isa in [Isa::Avx2, Isa::Amx] {
                assert!(candidates.iter().any(|choice| choice.isa == isa), "{shape} {isa}");
            }
        }
    }

    #[test]
    fn foreign_numbers_do_not_fit() {
        let problem: Problem = "4096x4096x65536:128".parse().unwrap();
        let with = |threads, rows| CpuChoice {
            threads,
            blocking: Blocking { rows, whole_k: Some(true) },
            ..default(4)
        };
        assert!(with(4, Some(64)).fits(&problem, &ISAS, 4));
        assert!(!with(0, None).fits(&problem, &ISAS, 4));
        assert!(!with(5, None).fits(&problem, &ISAS, 4));
        assert!(!with(4, Some(0)).fits(&problem, &ISAS, 4));
        assert!(!with(4, Some(usize::MAX)).fits(&problem, &ISAS, 4));
        // 4096 rows of 65536 activations take 512 MiB.
        assert!(!with(4, Some(4096)).fits(&problem, &ISAS, 4));
        let neon = CpuChoice { isa: Isa::Neon, ..default(4) };
        assert!(!neon.fits(&problem, &ISAS, 4));
    }

    #[test]
    fn what_no_search_tries_is_no_candidate() {
        let problem: Problem = "512x512x2048:128".parse().unwrap();
        let is_candidate = |choice: CpuChoice| choice.is_candidate(&problem, &ISAS, 4);
        let with_rows =
            |rows| CpuChoice { blocking: Blocking { rows: Some(rows), whole_k: None }, ..default(4) };
        assert!(is_candidate(default(4)) && is_candidate(default(1)));
        assert!(is_candidate(CpuChoice { isa: Isa::Avx2, ..default(2) }));
        let rows = CpuPlan::with_choice(problem, Strategy::Strip, default(4)).block_rows;
        assert!(is_candidate(with_rows(2 * rows)));
        for rows in [0, 1, 2 * rows + 1, usize::MAX] {
            assert!(!is_candidate(with_rows(rows)), "{rows}");
        }
        for threads in [0, 3, 5] {
            assert!(!is_candidate(default(threads)), "{threads}");
        }
        let portable = CpuChoice { isa: Isa::Portable, ..default(4) };
        assert!(!is_candidate(portable) && portable.is_candidate(&problem, &[Isa::Portable], 4));
        assert!(!is_candidate(CpuChoice { isa: Isa::Neon, ..default(4) }));
    }

    #[test]
    fn a_plan_with_other_blocks_comes_back_from_a_file() {
        let problem: Problem = "512x512x2048:128".parse().unwrap();
        let blocking = Blocking { rows: Some(48), whole_k: Some(false) };
        let plan = CpuPlan::with_choice(problem, Strategy::Strip, CpuChoice { blocking, ..default(2) });
        assert!(plan.block_rows <= 48);
        let text = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<CpuPlan>(&text).unwrap(), plan);
        let other = text.replace("\"rows\":48", "\"rows\":96");
        assert!(serde_json::from_str::<CpuPlan>(&other).is_err());
        let default = CpuPlan::new(problem, Strategy::Strip, Isa::Avx512, 2);
        assert!(!serde_json::to_string(&default).unwrap().contains("blocking"));
    }
}
