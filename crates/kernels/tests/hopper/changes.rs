//! Mutants with one instruction altered or moved: the simulator must detect each.

use octile_core::{
    Strategy,
    plan::hopper::{ClusterMode, GpuTile, HopperPlan, TileConfig},
    sample::Operands,
};
use octile_kernels::hopper;

use crate::{
    GPU,
    mutants::{executed_lines, is_detected},
    problem,
    text::Text,
};

/// Lines within which an instruction may be moved.
const NEAR: usize = 60;

impl Text<'_> {
    /// Moves `lines` lines behind the next line that starts with `start`.
    fn moved_behind(&self, at: usize, lines: usize, start: &str) -> Option<String> {
        let to =
            (at + lines..at + NEAR).find(|&to| self.0.get(to).is_some_and(|line| line.starts_with(start)))?;
        let moved = self.0[at..at + lines].join("\n");
        // A loop moves with its label.
        let moved = match self.0[at - 1].strip_suffix(':') {
            Some(label) if lines > 1 => {
                format!("MOVED:\n{}", moved.replace(&format!("bra {label}"), "bra MOVED"))
            }
            _ => moved,
        };
        let behind = format!("{}\n{moved}", self.0[to]);
        let mut changed = self.0.clone();
        changed[at..at + lines].fill("");
        changed[to] = &behind;
        Some(changed.join("\n"))
    }

    /// The mutants of a line, each with a description. Register `%r0` is unused.
    fn changes(&self, at: usize) -> Vec<(&'static str, String)> {
        let line = self.0[at];
        let (start, last) = line.trim_end_matches(';').rsplit_once(", ").unwrap_or((line, ""));
        let number = |add: i64| {
            let number: i64 = last.parse().expect("it is a number");
            self.with(at, &format!("{start}, {};", number + add))
        };
        let is = |name: &str| line.starts_with(name);
        let mut changes = Vec::new();
        if is("mbarrier.try_wait") || is("mbarrier.test_wait") {
            changes.push((
                "the other phase parity",
                self.with(at, &format!("xor.b32 %r0, {last}, 1;\n{start}, %r0;")),
            ));
        }
        if is("mbarrier.try_wait") {
            changes.push(("no retry", self.with(at + 1, "")));
            let late = self.moved_behind(at, 2, "cp.async.bulk.tensor.2d.shared");
            changes.extend(late.map(|late| ("a wait behind the load", late)));
        }
        if is("mbarrier.init") {
            changes.push(("one arrival more", number(1)));
            if last != "1" {
                changes.push(("one arrival less", number(-1)));
            }
        }
        if is("mbarrier.arrive.expect_tx") {
            changes.extend([("128 bytes more", number(128)), ("128 bytes less", number(-128))]);
        }
        if is("mov.b16") && last == "3" {
            changes.extend([
                ("no multicast to the second CTA", number(-2)),
                ("no multicast to the first CTA", number(-1)),
            ]);
        }
        if let Some((to, low)) = start.rsplit_once(", {").filter(|_| is("mov.b64")) {
            for (what, units) in [("the next k-step", 2), ("the next rows", 64)] {
                let text = format!("add.u32 %r0, {low}, {units};\n{to}, {{%r0, {last};");
                changes.push((what, self.with(at, &text)));
            }
        }
        let moves = [
            ("wgmma.wait_group", "mbarrier.arrive", "a release before the wgmma are done"),
            ("fence.proxy.async", "bar.", "a fence behind the barrier"),
            ("cp.async.ca", "cp.async.mbarrier", "a copy behind the arrival"),
            ("cp.async.cg", "cp.async.mbarrier", "a copy behind the arrival"),
        ];
        for (_, behind, what) in moves.into_iter().filter(|&(moved, ..)| is(moved)) {
            changes.extend(self.moved_behind(at, 1, behind).map(|text| (what, text)));
        }
        changes
    }
}

/// Runs every mutant, at least `at_least` of them, and returns those that go undetected.
fn undetected(plan: &HopperPlan, at_least: usize) -> Vec<(&'static str, String)> {
    let kernel = hopper::multiply(plan);
    let operands = Operands::random(plan.problem, 13);
    let text = Text::new(&kernel.ptx);
    let changes = executed_lines(plan, &kernel.ptx, &operands).into_iter().flat_map(|line| {
        let changes = text.changes(line - 1).into_iter();
        changes.map(move |(what, changed)| (line, what, changed))
    });
    let changes: Vec<_> = changes.collect();
    assert!(changes.len() >= at_least, "{}: only {} changes", kernel.entry, changes.len());
    let survivors = changes.into_iter().filter(|(.., changed)| !is_detected(plan, changed, &operands));
    survivors.map(|(line, what, _)| (what, format!("{line}: {}", text.0[line - 1]))).collect()
}

#[test]
fn auto() {
    let plan = HopperPlan::best(&problem(140, 136, 300), &GPU, Strategy::Auto).expect("it has a plan");
    assert_eq!(undetected(&plan, 15), []);
}

#[test]
fn the_pipeline() {
    for (problem, tile, swapped, cluster) in [
        (problem(140, 136, 900), GpuTile { a: 128, b: 128 }, false, ClusterMode::MulticastB),
        (problem(20, 130, 1800), GpuTile { a: 64, b: 32 }, true, ClusterMode::SplitK(2)),
    ] {
        let shape = TileConfig { tile, swapped, cluster };
        let plan = HopperPlan::new(&problem, &GPU, Strategy::Strip, shape, Some(3)).expect("it has a plan");
        assert_eq!(undetected(&plan, 60), [], "{cluster:?}");
    }
}
