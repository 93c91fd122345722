//! Which plans strategies were run with: their instruction sets, and tuned tables.

use octile_core::{Strategy, device::cpu::Isa, tuned::TableOrigin};
use octile_harness::backend::PlanLabel;

/// The instruction sets: one for all strategies, or each with its strategies.
pub(super) fn isas<'a>(plans: impl Iterator<Item = (Strategy, &'a PlanLabel)>) -> Option<String> {
    let mut of_isa: Vec<(Isa, Vec<&str>)> = Vec::new();
    for (strategy, plan) in plans {
        let Some(isa) = plan.isa else { continue };
        match of_isa.iter_mut().find(|(known, _)| *known == isa) {
            Some((_, strategies)) => strategies.push(strategy.version()),
            None => of_isa.push((isa, vec![strategy.version()])),
        }
    }
    match &of_isa[..] {
        [] => None,
        [(isa, _)] => Some(isa.to_string()),
        several => {
            let named = |(isa, strategies): &(Isa, Vec<&str>)| format!("{isa} ({})", strategies.join(", "));
            Some(several.iter().map(named).collect::<Vec<_>>().join(", "))
        }
    }
}

/// One line per strategy with a plan from a table.
pub(super) fn tuned<'a>(plans: impl Iterator<Item = (Strategy, &'a PlanLabel)>) -> String {
    let line = |(strategy, plan): (Strategy, &PlanLabel)| {
        let tuned = plan.tuned.as_ref()?;
        let table = match tuned.table {
            TableOrigin::User => "your table",
            TableOrigin::Shipped => "the shipped table",
        };
        Some(format!("  {} with the tuned plan of {table}: {}\n", strategy.version(), tuned.plan))
    };
    plans.filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use octile_harness::backend::TunedLabel;

    use super::*;

    #[test]
    fn strategies_with_other_plans_are_told_apart() {
        let plan = |isa| PlanLabel { isa: Some(isa), tuned: None };
        let label = TunedLabel { plan: "amx, 1 thread".to_owned(), table: TableOrigin::Shipped };
        let strip = PlanLabel { tuned: Some(label), ..plan(Isa::Amx) };
        let (auto, dma) = (plan(Isa::Avx2), plan(Isa::Avx2));
        let plans = [(Strategy::Auto, &auto), (Strategy::Dma, &dma), (Strategy::Strip, &strip)];
        assert_eq!(isas(plans.into_iter()).unwrap(), "avx2 (v1, v2), amx (v4)");
        assert_eq!(isas(plans.into_iter().take(2)).unwrap(), "avx2");
        assert_eq!(isas([(Strategy::Auto, &PlanLabel::default())].into_iter()), None);
        assert_eq!(
            tuned(plans.into_iter()),
            "  v4 with the tuned plan of the shipped table: amx, 1 thread\n"
        );
    }
}
