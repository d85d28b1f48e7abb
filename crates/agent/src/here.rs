//! What agents have on this machine, by number.

use crate::files::Folder;
use crate::{Error, lock};
use rack::Host;
use std::any::{Any, type_name};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// Everything that the agents of this machine's hosts have started. What is still there when it is dropped is ended.
#[derive(Default)]
pub struct Here {
    hosts: Mutex<BTreeMap<String, Host>>,
    last: AtomicU64,
    things: Mutex<BTreeMap<u64, Thing>>,
    lines: OnceLock<Lines>,
    /// Of an agent elsewhere.
    folder: Option<Folder>,
}

/// Takes the lines of a role, by its number, and nothing at its end.
pub(crate) type Lines = Arc<dyn Fn(u64, Option<String>) + Send + Sync>;

/// A server, a capture and so on, used by one request at a time. Empty: it was taken while somebody waited for it.
type Thing = Arc<Mutex<Option<Box<dyn Any + Send>>>>;

impl Here {
    /// On another machine than the coordinator's, with a folder for its files.
    pub(crate) fn in_folder(folder: Folder) -> Self {
        Self { folder: Some(folder), ..Self::default() }
    }

    /// The folder for the coordinator's files.
    pub(crate) fn folder(&self) -> Result<&Folder, Error> {
        self.folder.as_ref().ok_or_else(|| Error::Unknown { what: "folder", name: "for files".into() })
    }

    /// Says where the lines of roles go.
    pub(crate) fn tell_lines(&self, tell: Lines) {
        let _ = self.lines.set(tell);
    }

    /// Where the lines of roles go; nowhere where nobody has said it.
    pub(crate) fn lines(&self) -> Lines {
        self.lines.get().cloned().unwrap_or_else(|| Arc::new(|_, _| ()))
    }

    /// Adds a host to those of this machine.
    pub(crate) fn add_host(&self, host: &Host) {
        lock(&self.hosts).insert(host.name.clone(), host.clone());
    }

    /// The CPUs of all hosts.
    pub(crate) fn cpus(&self) -> Vec<usize> {
        lock(&self.hosts).values().flat_map(|host| host.cpus.clone()).collect()
    }

    /// The host of this name.
    pub(crate) fn host(&self, name: &str) -> Result<Host, Error> {
        let known = lock(&self.hosts).get(name).cloned();
        known.ok_or_else(|| Error::Unknown { what: "host", name: name.into() })
    }

    /// Keeps something; its number.
    pub(crate) fn keep<T: Send + 'static>(&self, thing: T) -> u64 {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        lock(&self.things).insert(number, Arc::new(Mutex::new(Some(Box::new(thing)))));
        number
    }

    /// Does something with what has this number, while nobody else does.
    pub(crate) fn with<T: 'static, R>(&self, number: u64, act: impl FnOnce(&mut T) -> R) -> Result<R, Error> {
        let thing = lock(&self.things).get(&number).cloned();
        let thing = thing.ok_or_else(|| unknown::<T>(number))?;
        let mut thing = lock(&thing);
        let known = thing.as_mut().and_then(|thing| thing.downcast_mut());
        known.map(act).ok_or_else(|| unknown::<T>(number))
    }

    /// Gives away what has this number, once nobody uses it.
    pub(crate) fn take<T: 'static>(&self, number: u64) -> Result<T, Error> {
        let thing = self.remove(number).and_then(|thing| thing.downcast().ok());
        thing.map(|thing| *thing).ok_or_else(|| unknown::<T>(number))
    }

    /// Ends what has this number, once nobody uses it; nothing where it was taken.
    pub(crate) fn forget(&self, number: u64) {
        drop(self.remove(number));
    }

    fn remove(&self, number: u64) -> Option<Box<dyn Any + Send>> {
        let thing = lock(&self.things).remove(&number)?;
        lock(&thing).take()
    }
}

fn unknown<T>(number: u64) -> Error {
    Error::Unknown { what: type_name::<T>(), name: number.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn what_was_taken_is_there_for_nobody_else() {
        let here = Here::default();
        let [one, two] = [7u32, 8].map(|n| here.keep(n));
        assert_eq!(here.with(one, |n: &mut u32| std::mem::replace(n, 9)).unwrap(), 7);
        assert!(here.with(one, |_: &mut String| ()).is_err(), "it is no string");
        assert_eq!(here.take::<u32>(one).unwrap(), 9);
        assert_eq!(here.take::<u32>(one).unwrap_err().to_string(), format!("there is no u32 {one} here"));
        here.forget(one);
        // What is in use is taken when that is over.
        std::thread::scope(|scope| {
            let (begun, began) = channel();
            let here = &here;
            scope.spawn(move || {
                here.with(two, |n: &mut u32| {
                    begun.send(()).unwrap();
                    std::thread::sleep(Duration::from_millis(20));
                    *n += 1;
                })
            });
            began.recv().unwrap();
            assert_eq!(here.take::<u32>(two).unwrap(), 9);
        });
    }
}
