//! Device meshes, and how tensors are divided among their devices.

use crate::{
    attribute::Attr,
    interpret::{Tensor, Unrunnable, places::Places, view::row_major},
    ir::Module,
    limits::MAX_DEVICES,
};

/// Module attribute that holds the meshes by name.
const MESHES: &str = "sdy.meshes";

/// A grid of devices with named axes; the last axis varies fastest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mesh {
    axes: Vec<(String, usize)>,
}

impl Mesh {
    /// The mesh called `name`, from `#sdy.mesh<["x"=2, "y"=4]>`.
    fn named(module: &Module, name: &str) -> Result<Self, String> {
        let Some(Attr::Dict(meshes)) = module.attributes.get(MESHES) else {
            return Err(format!("the module has no mesh @{name}"));
        };
        let mesh = meshes.get(name).ok_or_else(|| format!("the module has no mesh @{name}"))?.to_string();
        let unknown = || format!("the mesh {mesh:.80} is not supported: only named axes with sizes are");
        let axes = mesh.trim().strip_prefix("#sdy.mesh<[").and_then(|rest| rest.strip_suffix("]>"));
        let axis = |axis: &str| {
            let (name, size) = axis.split_once('=')?;
            let name = name.trim().strip_prefix('"')?.strip_suffix('"')?;
            Some((name.to_owned(), size.trim().parse::<usize>().ok().filter(|&size| size > 0)?))
        };
        let axes = axes.ok_or_else(unknown)?.split(',').filter(|axis| !axis.trim().is_empty());
        let axes = axes.map(axis).collect::<Option<Vec<_>>>().ok_or_else(unknown)?;
        let devices = axes.iter().try_fold(1usize, |all, (_, size)| all.checked_mul(*size));
        match devices.filter(|&devices| devices <= MAX_DEVICES) {
            Some(_) => Ok(Self { axes }),
            None => Err(format!("the mesh {mesh:.80} has more than {MAX_DEVICES} devices")),
        }
    }

    /// Number of devices.
    pub(crate) fn devices(&self) -> usize {
        self.axes.iter().map(|(_, size)| size).product()
    }

    /// Position of a device along an axis.
    fn coordinate(&self, device: usize, axis: usize) -> usize {
        let inner: usize = self.axes[axis + 1..].iter().map(|(_, size)| size).product();
        device / inner % self.axes[axis].1
    }
}

/// Number of devices of the mesh that a module runs on, if part of it runs on a mesh.
pub fn mesh_devices(module: &Module) -> Result<Option<usize>, Unrunnable> {
    let mut found = Ok(None);
    for function in &module.functions {
        function.walk(&mut |op| {
            let shardings =
                ["in_shardings", "out_shardings"].iter().filter_map(|name| op.attributes.get(name));
            for attr in shardings.filter(|_| op.name == "sdy.manual_computation") {
                match (&found, Sharding::list(module, attr)) {
                    (Ok(None), Ok(list)) => found = Ok(list.first().map(|one| one.mesh.devices())),
                    (Ok(_), Err(message)) => found = Err(Unrunnable::Kernel(message)),
                    _ => {}
                }
            }
        });
    }
    found
}

/// How one tensor is divided: the axes of the mesh along each dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sharding {
    pub(crate) mesh: Mesh,
    dimensions: Vec<Vec<usize>>,
}

impl Sharding {
    /// Reads `#sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>, ...]>`.
    pub(crate) fn list(module: &Module, attr: &Attr) -> Result<Vec<Self>, String> {
        let text = attr.to_string();
        let unknown = || format!("the shardings {text:.120} are not supported");
        let list = text.strip_prefix("#sdy.sharding_per_value<[").and_then(|rest| rest.strip_suffix("]>"));
        let mut rest = list.ok_or_else(unknown)?.trim();
        let mut shardings = Vec::new();
        while !rest.is_empty() {
            let (one, tail) =
                rest.strip_prefix('<').and_then(|rest| rest.split_once('>')).ok_or_else(unknown)?;
            shardings.push(Self::one(module, one).ok_or_else(unknown)??);
            rest = tail.trim_start().trim_start_matches(',').trim_start();
        }
        Ok(shardings)
    }

    /// Reads `@mesh, [{"x", "y"}, {}]`. What follows, such as `replicated={"z"}`, does not move elements.
    fn one(module: &Module, text: &str) -> Option<Result<Self, String>> {
        let (name, rest) = text.trim().strip_prefix('@')?.split_once(',')?;
        let mesh = match Mesh::named(module, name.trim().trim_matches('"')) {
            Ok(mesh) => mesh,
            Err(error) => return Some(Err(error)),
        };
        let (mut list, _) = rest.trim().strip_prefix('[')?.split_once(']')?;
        let mut dimensions = Vec::new();
        while let Some((before, tail)) = list.split_once('}') {
            let names = before.trim_start().trim_start_matches(',').trim_start().strip_prefix('{')?;
            let names = names.split(',').map(str::trim).filter(|name| !name.is_empty() && *name != "?");
            let axis = |name: &str| {
                let name = name.strip_prefix('"')?.strip_suffix('"')?;
                mesh.axes.iter().position(|(axis, _)| axis == name)
            };
            dimensions.push(names.map(axis).collect::<Option<Vec<_>>>()?);
            list = tail;
        }
        Some(Ok(Self { mesh, dimensions }))
    }

    /// Number of parts along a dimension.
    fn parts(&self, dimension: usize) -> usize {
        self.dimensions[dimension].iter().map(|&axis| self.mesh.axes[axis].1).product()
    }

    /// Shape of a device's part; `None` if the tensor cannot be divided so.
    pub(crate) fn local_shape(&self, shape: &[usize]) -> Option<Vec<usize>> {
        if shape.len() != self.dimensions.len() {
            return None;
        }
        let extent = |(dimension, &extent): (usize, &usize)| {
            let parts = self.parts(dimension);
            extent.is_multiple_of(parts).then(|| extent / parts)
        };
        shape.iter().enumerate().map(extent).collect()
    }

    /// Positions of a device's part in the whole tensor.
    fn places(&self, device: usize, whole: &[usize], local: &[usize]) -> Places {
        let dims = row_major(whole, 1);
        let index = |dimension: usize| {
            self.dimensions[dimension]
                .iter()
                .fold(0, |all, &axis| all * self.mesh.axes[axis].1 + self.mesh.coordinate(device, axis))
        };
        let start = (0..dims.len()).map(|i| index(i) * local[i] * dims[i].stride).sum();
        let strides: Vec<usize> = dims.iter().map(|dim| dim.stride).collect();
        Places::new(local, &strides, start)
    }

    /// The part of `tensor` that a device holds.
    pub(crate) fn part(&self, device: usize, tensor: &Tensor, local: &[usize]) -> Tensor {
        let unit = tensor.element.bytes();
        let places = self.places(device, &tensor.shape, local);
        let mut bytes = Vec::with_capacity(places.len() * unit);
        places.for_each(|place| bytes.extend_from_slice(&tensor.bytes[place * unit..][..unit]));
        Tensor { element: tensor.element, shape: local.to_vec(), bytes: bytes.into() }
    }

    /// Writes a device's part into the bytes of the whole tensor, of shape `shape`. Returns whether it
    /// differs from what another device has written there.
    pub(crate) fn put(
        &self,
        device: usize,
        part: &Tensor,
        shape: &[usize],
        whole: &mut [u8],
        written: &mut [bool],
    ) -> bool {
        let unit = part.element.bytes();
        let (mut at, mut differs) = (0, false);
        self.places(device, shape, &part.shape).for_each(|place| {
            let (from, to) = (&part.bytes[at..at + unit], &mut whole[place * unit..][..unit]);
            match std::mem::replace(&mut written[place], true) {
                true => differs |= from != to,
                false => to.copy_from_slice(from),
            }
            at += unit;
        });
        differs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{attribute::Attributes, interpret::Element};

    fn module(mesh: &str) -> Module {
        let meshes = Attributes::new().with("mesh", Attr::Other(mesh.to_owned()));
        Module { attributes: Attributes::new().with(MESHES, Attr::Dict(meshes)), ..Module::default() }
    }

    fn shardings(mesh: &str, list: &str) -> Result<Vec<Sharding>, String> {
        let attr = Attr::Other(format!("#sdy.sharding_per_value<[{list}]>"));
        Sharding::list(&module(mesh), &attr)
    }

    #[test]
    fn parts_follow_the_axes_of_the_mesh_and_make_up_the_whole() {
        let list = r#"<@mesh, [{"y", "x"}, {}]>, <@mesh, [{}, {"x"}], replicated={"y"}>"#;
        let found = shardings(r#"#sdy.mesh<["x"=2, "y"=3]>"#, list).unwrap();
        assert_eq!(found.len(), 2);
        let bytes: Vec<u8> = (0..24).collect();
        let whole = Tensor { element: Element::Integer(1), shape: vec![6, 4], bytes: bytes.clone().into() };
        for sharding in found {
            let local = sharding.local_shape(&whole.shape).unwrap();
            let mut again = vec![0; 24];
            let mut written = vec![false; 24];
            for device in 0..sharding.mesh.devices() {
                let part = sharding.part(device, &whole, &local);
                assert!(!sharding.put(device, &part, &whole.shape, &mut again, &mut written));
            }
            assert_eq!(again, bytes);
        }
        let by_y = &shardings(r#"#sdy.mesh<["x"=2, "y"=3]>"#, r#"<@mesh, [{"y", "x"}, {}]>"#).unwrap()[0];
        // Device 1 is x = 0, y = 1: the third of six parts.
        assert_eq!(*by_y.part(1, &whole, &[1, 4]).bytes, [8, 9, 10, 11]);
        assert_eq!(by_y.local_shape(&[7, 4]), None);
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        let mesh = r#"#sdy.mesh<["x"=4]>"#;
        assert!(shardings(mesh, r#"<@other, [{"x"}]>"#).unwrap_err().contains("no mesh @other"));
        assert!(shardings(mesh, r#"<@mesh, [{"x":(1)2}]>"#).is_err());
        assert!(shardings(mesh, r#"<@mesh, [{"z"}]>"#).is_err());
        assert!(shardings(r#"#sdy.mesh<["x"=4], device_ids=[3, 2, 1, 0]>"#, r#"<@mesh, [{"x"}]>"#).is_err());
        assert!(shardings(r#"#sdy.mesh<["x"=99999999]>"#, r#"<@mesh, [{"x"}]>"#).is_err());
    }
}
