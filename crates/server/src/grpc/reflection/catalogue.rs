//! The descriptors that are told: files by path, and which file declares a name.

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::grpc::wire::{Fields, Malformed, Value};

/// A `FileDescriptorSet`, written by `tools/descriptors.py`.
static DESCRIPTORS: &[u8] = include_bytes!("descriptors.bin");

/// One file of the set.
#[derive(Debug)]
pub struct File {
    /// The encoded `FileDescriptorProto`.
    pub bytes: &'static [u8],
    imports: Vec<&'static str>,
}

/// All files.
#[derive(Debug, Default)]
pub struct Catalogue {
    files: HashMap<&'static str, File>,
    /// Full names of services, methods, messages and enums, each with the path of its file.
    homes: HashMap<String, &'static str>,
    /// Full names of the services, in the order of the set.
    pub services: Vec<String>,
}

impl Catalogue {
    /// The one of this build.
    pub fn get() -> &'static Self {
        static CATALOGUE: OnceLock<Catalogue> = OnceLock::new();
        // A set that cannot be read would be caught by the tests; then there is nothing to tell.
        CATALOGUE.get_or_init(|| Self::read(DESCRIPTORS).unwrap_or_default())
    }

    fn read(set: &'static [u8]) -> Result<Self, Malformed> {
        let mut catalogue = Self::default();
        for file in parts(set, 1)? {
            let path = text(file, 1)?;
            let package = text(file, 2)?;
            for (number, inner) in [(4, true), (5, false), (6, true)] {
                for declared in parts(file, number)? {
                    catalogue.declare(path, package, declared, number == 6, inner)?;
                }
            }
            let imports: Result<_, Malformed> = parts(file, 3)?.into_iter().map(string).collect();
            catalogue.files.insert(path, File { bytes: file, imports: imports? });
        }
        Ok(catalogue)
    }

    /// Notes a name, and what a message (fields 3 and 4) or a service (field 2) declares inside.
    fn declare(
        &mut self,
        path: &'static str,
        scope: &str,
        declared: &'static [u8],
        is_service: bool,
        has_inner: bool,
    ) -> Result<(), Malformed> {
        let name = format!("{scope}.{}", text(declared, 1)?);
        if has_inner && is_service {
            self.services.push(name.clone());
            for method in parts(declared, 2)? {
                self.homes.insert(format!("{name}.{}", text(method, 1)?), path);
            }
        } else if has_inner {
            for message in parts(declared, 3)? {
                self.declare(path, &name, message, false, true)?;
            }
            for one in parts(declared, 4)? {
                self.declare(path, &name, one, false, false)?;
            }
        }
        self.homes.insert(name, path);
        Ok(())
    }

    /// The path of the file that declares a name.
    pub fn home(&self, name: &str) -> Option<&'static str> {
        self.homes.get(name).copied()
    }

    /// A file, and then all that it imports, each once.
    pub fn with_imports(&self, path: &str) -> Option<Vec<&File>> {
        let mut found = vec![self.files.get(path)?];
        let mut at = 0;
        while let Some(file) = found.get(at) {
            let imports: Vec<_> =
                file.imports.iter().filter_map(|path| self.files.get(path)).collect();
            for import in imports {
                if !found.iter().any(|file| std::ptr::eq(*file, import)) {
                    found.push(import);
                }
            }
            at += 1;
        }
        Some(found)
    }
}

/// Every occurrence of a length-delimited field.
fn parts(message: &'static [u8], number: u32) -> Result<Vec<&'static [u8]>, Malformed> {
    let mut found = Vec::new();
    for field in Fields::new(message) {
        if let (at, Value::Bytes(bytes)) = field?
            && at == number
        {
            found.push(bytes);
        }
    }
    Ok(found)
}

fn text(message: &'static [u8], number: u32) -> Result<&'static str, Malformed> {
    parts(message, number)?.first().copied().map_or(Ok(""), string)
}

fn string(bytes: &'static [u8]) -> Result<&'static str, Malformed> {
    std::str::from_utf8(bytes).map_err(|_| Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_set_is_whole() {
        let catalogue = Catalogue::read(DESCRIPTORS).unwrap();
        for file in catalogue.files.values() {
            for import in &file.imports {
                assert!(catalogue.files.contains_key(import), "{import}");
            }
        }
        let services = [
            "envoy.service.ratelimit.v3.RateLimitService",
            "grpc.health.v1.Health",
            "grpc.reflection.v1.ServerReflection",
            "grpc.reflection.v1alpha.ServerReflection",
        ];
        assert_eq!(catalogue.services, services);
    }

    #[test]
    fn names_are_found_at_any_depth() {
        let catalogue = Catalogue::get();
        let rls = Some("envoy/service/ratelimit/v3/rls.proto");
        let package = "envoy.service.ratelimit.v3";
        for name in [
            "RateLimitService",
            "RateLimitService.ShouldRateLimit",
            "RateLimitResponse",
            "RateLimitResponse.RateLimit.Unit",
        ] {
            assert_eq!(catalogue.home(&format!("{package}.{name}")), rls, "{name}");
        }
        assert_eq!(catalogue.home("envoy.service"), None);
        assert_eq!(
            catalogue.with_imports("envoy/service/ratelimit/v3/rls.proto").unwrap().len(),
            8
        );
        assert!(catalogue.with_imports("nope.proto").is_none());
    }
}
