//! How a multiplication is carried out, for a reader.

use std::fmt;

use octile_core::{
    Problem, Strategy,
    plan::{MemorySpace, cpu::CpuPlan, hopper::HopperPlan, tpu::TpuPlan},
};

/// How a multiplication of some rows is carried out: `{}` in one line, `{:#}` in several.
///
/// ```
/// use octile::{Block, Device, Matmul, Strategy, Weight};
///
/// let weight = Weight::quantize(&vec![1.0f32; 256 * 512], [256, 512], Block::B128)?;
/// let matmul = Matmul::builder(&Device::simulated_gpu(), weight).with_strategy(Strategy::Dma).build()?;
/// let plan = matmul.plan(16)?;
/// assert!(plan.to_string().starts_with("16x256x512:128, dma: "));
/// # Ok::<(), octile::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Plan(pub(crate) Kind);

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    Cpu(Box<CpuPlan>),
    Gpu(Box<HopperPlan>),
    Tpu(Box<TpuPlan>),
}

impl Plan {
    /// How the kernel brings its operands to the arithmetic.
    pub fn strategy(&self) -> Strategy {
        match &self.0 {
            Kind::Cpu(plan) => plan.strategy,
            Kind::Gpu(plan) => plan.strategy,
            Kind::Tpu(plan) => plan.strategy,
        }
    }

    fn problem(&self) -> &Problem {
        match &self.0 {
            Kind::Cpu(plan) => &plan.problem,
            Kind::Gpu(plan) => &plan.problem,
            Kind::Tpu(plan) => &plan.problem,
        }
    }

    /// What it consists of, the most important first.
    fn parts(&self) -> Vec<(&'static str, String)> {
        match &self.0 {
            Kind::Cpu(plan) => vec![
                ("instructions", plan.isa.to_string()),
                ("threads", format!("{} x {}", plan.grid.0, plan.grid.1)),
                ("register tile", format!("{} rows", plan.tile.rows)),
                ("row block", plan.block_rows.to_string()),
                ("scratch per thread", format!("{} bytes", plan.thread_bytes())),
            ],
            Kind::Gpu(plan) => vec![
                ("CTA tile", format!("{} x {}", plan.shape.tile.a, plan.shape.tile.b)),
                ("CTAs", plan.blocks.to_string()),
                ("cluster", plan.shape.cluster.ctas().to_string()),
                ("pipeline stages", plan.stages.to_string()),
                ("consumer warpgroups", plan.consumers.to_string()),
                ("promotion", format!("every {} of K", plan.promote_every)),
                ("shared memory", format!("{} bytes", plan.shared_bytes())),
            ],
            Kind::Tpu(plan) => vec![
                ("tile", plan.tile.to_string()),
                ("grid", plan.grid.to_string()),
                ("DMA semaphores", plan.semaphores.to_string()),
                ("VMEM", format!("{} bytes", plan.memory.total(MemorySpace::Vmem))),
            ],
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (problem, strategy) = (self.problem(), self.strategy());
        if f.alternate() {
            writeln!(f, "{problem}, {strategy}")?;
            writeln!(f, "  {:<20}  {}", "activations", problem.x)?;
            write!(f, "  {:<20}  {}", "result", problem.out)?;
            return self.parts().iter().try_for_each(|(name, value)| write!(f, "\n  {name:<20}  {value}"));
        }
        let parts: Vec<String> =
            self.parts().iter().take(4).map(|(name, value)| format!("{name} {value}")).collect();
        write!(f, "{problem}, {strategy}: {}", parts.join(", "))
    }
}
