//! `octile report`: everything about the versions on one page.

use octile_harness::record::Provenance;

use super::{
    analyze::{
        Version,
        manifest::{Manifest, Plan},
    },
    compare::{Column, Difference},
    simulate,
    verify::{self, Judged},
};
use crate::args::SimulateArgs;

/// Most elements of operands and result that are simulated for a timeline.
const SIMULATED_ELEMENTS: usize = 1 << 25;
/// Operations after which such a simulation stops; the timeline shows only the first steps anyway.
const SIMULATED_OPERATIONS: u64 = 50_000_000;

/// What the page shows.
#[derive(Debug)]
pub struct ReportPage {
    /// When it was made, and with what.
    pub provenance: Provenance,
    /// The version table.
    pub columns: Vec<Column>,
    /// From each version to the next.
    pub steps: Vec<Step>,
    /// Every version with its verdict.
    pub versions: Vec<Judged>,
    /// A simulated run of each version that has a module to simulate.
    pub runs: Vec<Option<simulate::SimulateReport>>,
    /// The passing versions by modelled cycles, where they are comparable.
    pub ranking: Option<Ranking>,
}

/// Versions of one problem on one chip, fastest first.
#[derive(Debug, PartialEq)]
pub struct Ranking {
    /// The chip that all are compiled for.
    pub chip: &'static str,
    /// The shape that all multiply.
    pub shape: String,
    /// Indices of the versions, with their cycles, modelled waits included.
    pub cycles: Vec<(usize, f64)>,
}

/// What is different between a version and the next.
#[derive(Debug)]
pub struct Step {
    /// The name of the first version.
    pub before: String,
    /// The name of the second version.
    pub after: String,
    /// What is different.
    pub difference: Difference,
}

impl Step {
    fn between(before: &Version, after: &Version) -> Self {
        let difference = Difference::between(before, after);
        Self { before: before.name.clone(), after: after.name.clone(), difference }
    }
}

impl ReportPage {
    /// The page about versions that were judged.
    pub fn new(verdicts: verify::VerifyReport) -> Self {
        let versions = verdicts.versions;
        let columns: Vec<_> = versions.iter().map(|judged| Column::of(&judged.version)).collect();
        let steps = versions.windows(2).filter_map(|pair| match pair {
            [before, after] => Some(Step::between(&before.version, &after.version)),
            _ => None,
        });
        let steps = steps.collect();
        let runs = versions.iter().map(|judged| run(&judged.version)).collect();
        let ranking = Ranking::new(&versions, &columns);
        Self { provenance: Provenance::now(), columns, steps, versions, runs, ranking }
    }

    /// Whether some files cannot be relied on.
    pub fn has_troubles(&self) -> bool {
        self.versions.iter().any(|judged| !judged.version.troubles.is_empty())
    }
}

impl Ranking {
    /// Ranks the versions that pass. `None` where fewer than two do, or they differ in chip or shape.
    fn new(versions: &[Judged], columns: &[Column]) -> Option<Self> {
        let passing = || versions.iter().zip(columns).enumerate().filter(|(_, (judged, _))| judged.passed);
        let (_, (first, column)) = passing().next()?;
        let (chip, shape) = (first.version.promise.chip?.name, column.shape.clone()?);
        let cycles = passing().map(|(index, (judged, column))| {
            let version = &judged.version;
            let is_same = column.shape.as_ref() == Some(&shape)
                && version.promise.chip.is_some_and(|other| other.name == chip);
            version.facts.cycles.as_ref().filter(|_| is_same).map(|cycles| (index, cycles.total()))
        });
        let mut cycles: Vec<_> = cycles.collect::<Option<_>>()?;
        cycles.sort_by(|a, b| a.1.total_cmp(&b.1));
        (cycles.len() > 1).then_some(Self { chip, shape, cycles })
    }
}

/// Simulates the module of an intact TPU version, for its timeline. A module that cannot be simulated has
/// none.
fn run(version: &Version) -> Option<simulate::SimulateReport> {
    let manifest = version.manifest.as_ref().filter(|manifest| is_small(manifest))?;
    if !version.troubles.is_empty() || !matches!(manifest.plan, Some(Plan::Tpu(_))) {
        return None;
    }
    let args = SimulateArgs {
        kernel: version.path.join(simulate::MODULE),
        max_operations: Some(SIMULATED_OPERATIONS),
        ..SimulateArgs::default()
    };
    let mut request = simulate::SimulateRequest::new(&args).ok()?;
    request.events = true;
    simulate::run(&request).ok()
}

/// Whether making up operands takes a moment, not minutes.
fn is_small(manifest: &Manifest) -> bool {
    let Some(problem) = manifest.problem() else { return false };
    let (m, n, k) = (problem.m, problem.n, problem.k);
    let elements = [(m, k), (n, k), (m, n)].map(|(rows, cols)| rows.saturating_mul(cols));
    elements.into_iter().fold(0usize, usize::saturating_add) <= SIMULATED_ELEMENTS
}
