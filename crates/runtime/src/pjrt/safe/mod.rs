//! Owned objects: each keeps its parent alive, and destroys what it owns exactly once.

mod buffer;
mod client;
mod element;
mod executable;
mod plugin;
mod topology;

pub use buffer::{Buffer, HostTensor, TensorError};
pub use client::{Client, Device, LoadedExecutable};
pub use element::ElementType;
pub use executable::{Executable, MemoryStats};
pub use plugin::{Plugin, PluginError};
pub use topology::Topology;
