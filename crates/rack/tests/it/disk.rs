//! The disk whose power can be cut, mounted for real, against a model of it.

use measure::{Draw, Seed};
use rack::disk::{Cut, Disk, Options, PAGE};
use rustix::fs::OFlags;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A disk in a folder that goes with it.
struct Lab {
    disk: Option<Disk>,
    folder: tempfile::TempDir,
}

impl Lab {
    /// None, said loudly, where we may not mount.
    fn new(options: Options) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let [backing, at] = ["backing", "at"].map(|name| folder.path().join(name));
        fs::create_dir(&backing).unwrap();
        fs::create_dir(&at).unwrap();
        match Disk::mount(&backing, &at, options) {
            Ok(disk) => Some(Self { disk: Some(disk), folder }),
            Err(e) if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() => {
                eprintln!("SKIPPED: {e}");
                None
            }
            Err(e) => panic!("{e}"),
        }
    }

    fn disk(&mut self) -> &mut Disk {
        self.disk.as_mut().unwrap()
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join("at").join(name)
    }

    fn backing(&self) -> PathBuf {
        self.folder.path().join("backing")
    }

    fn cut(&mut self) -> Cut {
        let cut = self.disk().cut().unwrap();
        self.disk().remount().unwrap();
        cut
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.disk = None; // before its folder goes
    }
}

fn open(path: &Path) -> File {
    File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap()
}

#[test]
fn what_was_synced_survives_and_nothing_else() {
    let Some(mut lab) = Lab::new(Options::default()) else { return };
    let synced = open(&lab.at("synced"));
    synced.write_all_at(b"old", 0).unwrap();
    synced.sync_data().unwrap();
    synced.write_all_at(b"new", 0).unwrap();
    let mut direct = File::options();
    direct.write(true).create(true).truncate(false).custom_flags(OFlags::DSYNC.bits() as i32);
    direct.open(lab.at("direct")).unwrap().write_all(b"at once").unwrap();
    fs::write(lab.at("lost"), b"never").unwrap();
    fs::create_dir(lab.at("folder")).unwrap();
    assert_eq!(fs::read(lab.at("lost")).unwrap(), b"never");
    assert_eq!(lab.disk().volatile().pages, 2);
    drop(synced);
    let cut = lab.disk().cut().unwrap();
    assert_eq!((cut.lost_pages, cut.saved_pages, cut.saved_names), (2, 0, 0));
    assert!(cut.syncs >= 2, "{cut:?}"); // after a write with O_DSYNC the kernel asks for a sync of its own
    let dead = fs::write(lab.at("after"), b"").unwrap_err();
    assert_eq!(dead.raw_os_error(), Some(rustix::io::Errno::IO.raw_os_error()));
    lab.disk().remount().unwrap();
    assert_eq!(fs::read(lab.at("synced")).unwrap(), b"old");
    assert_eq!(fs::read(lab.at("direct")).unwrap(), b"at once");
    let names: Vec<_> = fs::read_dir(lab.at("")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

#[test]
fn any_sync_commits_all_names_before_it() {
    let Some(mut lab) = Lab::new(Options::default()) else { return };
    fs::write(lab.at("a"), b"contents of a").unwrap();
    fs::create_dir(lab.at("d")).unwrap();
    fs::rename(lab.at("a"), lab.at("d/b")).unwrap();
    std::os::unix::fs::symlink("d/b", lab.at("link")).unwrap();
    fs::set_permissions(lab.at("d"), fs::Permissions::from_mode(0o750)).unwrap();
    open(&lab.at("other")).sync_all().unwrap();
    fs::rename(lab.at("d/b"), lab.at("too late")).unwrap();
    lab.cut();
    // The name is there; what nobody synced is not.
    assert_eq!(fs::read(lab.at("d/b")).unwrap(), b"");
    assert_eq!(fs::read_link(lab.at("link")).unwrap(), Path::new("d/b"));
    assert_eq!(fs::metadata(lab.at("d")).unwrap().mode() & 0o7777, 0o750);
    assert!(!lab.at("too late").exists());
    // The folder's own sync does the same.
    fs::remove_file(lab.at("d/b")).unwrap();
    fs::remove_dir(lab.at("d")).unwrap();
    File::open(lab.at("")).unwrap().sync_all().unwrap();
    lab.cut();
    assert!(!lab.at("d").exists());
}

#[test]
fn a_file_without_a_name_lives_while_it_is_open() {
    let Some(mut lab) = Lab::new(Options { replace_by_rename: false, ..Options::default() }) else { return };
    let file = open(&lab.at("f"));
    file.write_all_at(&[7; 10_000], 0).unwrap();
    file.sync_all().unwrap();
    fs::write(lab.at("g"), b"of g").unwrap();
    fs::rename(lab.at("g"), lab.at("f")).unwrap(); // over it, in the strict way
    open(&lab.at("other")).sync_all().unwrap();
    file.write_all_at(&[8; 10], 9_990).unwrap();
    file.sync_all().unwrap();
    let mut seen = [0; 20];
    file.read_exact_at(&mut seen, 9_980).unwrap();
    assert_eq!(seen, *[[7; 10], [8; 10]].as_flattened());
    assert_eq!(file.metadata().unwrap().nlink(), 0);
    drop(file);
    assert_eq!(fs::read(lab.at("f")).unwrap(), b"of g");
    lab.cut();
    assert_eq!(fs::read(lab.at("f")).unwrap(), b"");
}

/// A file is replaced by a new one, and another is synced.
#[test]
fn a_rename_over_a_file_is_as_on_ext4_or_strict() {
    for (replace_by_rename, left) in [(true, "new"), (false, "")] {
        let Some(mut lab) = Lab::new(Options { replace_by_rename, ..Options::default() }) else { return };
        fs::write(lab.at("f"), b"old").unwrap();
        open(&lab.at("f")).sync_all().unwrap();
        fs::write(lab.at("f.tmp"), b"new").unwrap();
        fs::rename(lab.at("f.tmp"), lab.at("f")).unwrap();
        fs::write(lab.at("g.tmp"), b"new").unwrap();
        fs::rename(lab.at("g.tmp"), lab.at("g")).unwrap(); // over nothing
        open(&lab.at("other")).sync_all().unwrap();
        lab.cut();
        assert_eq!(
            [fs::read(lab.at("f")).unwrap(), fs::read(lab.at("g")).unwrap()],
            [left.into(), Vec::new()]
        );
    }
}

#[test]
fn memory_is_bounded() {
    let Some(mut lab) = Lab::new(Options { limit: 100 * PAGE, ..Options::default() }) else { return };
    let file = open(&lab.at("f"));
    let block = [1; PAGE as usize];
    let full = (0..200).find_map(|n| file.write_all_at(&block, n * PAGE).err().map(|e| (n, e))).unwrap();
    assert_eq!(full.1.kind(), ErrorKind::StorageFull);
    assert!((90..=100).contains(&full.0), "{full:?}");
    // What is in memory already can be changed, and a sync makes room.
    file.write_all_at(&[2; 100], 50).unwrap();
    file.sync_all().unwrap();
    assert_eq!(lab.disk().volatile().pages, 0);
    file.write_all_at(&block, full.0 * PAGE).unwrap();
}

#[test]
fn a_seed_draws_what_survives() {
    let survive = |seed| {
        let options = Options { survivors: Some(Seed(seed)), ..Options::default() };
        let mut lab = Lab::new(options)?;
        let file = open(&lab.at("f"));
        file.sync_all().unwrap();
        (0..100).for_each(|n| file.write_all_at(&[1; PAGE as usize], n * PAGE).unwrap());
        (0..20).for_each(|n| drop(open(&lab.at(&n.to_string()))));
        drop(file);
        let cut = lab.cut();
        assert_eq!((cut.saved_pages + cut.lost_pages, cut.saved_names + cut.lost_names), (100, 20));
        assert!((20..80).contains(&cut.saved_pages), "{cut:?}");
        let bytes = fs::read(lab.at("f")).unwrap();
        let saved = bytes.chunks(PAGE as usize).map(|page| page == [1; PAGE as usize]).collect::<Vec<_>>();
        assert!(bytes.chunks(PAGE as usize).all(|page| page.iter().all(|b| *b == page[0])));
        assert_eq!(saved.iter().filter(|&&s| s).count() as u64, cut.saved_pages);
        // Of the names a first part.
        let there = (0..20).filter(|n| lab.at(&n.to_string()).exists()).count() as u64;
        assert!(there == cut.saved_names && (0..there).all(|n| lab.at(&n.to_string()).exists()));
        Some((cut.saved_names, saved))
    };
    let Some(first) = survive(1) else { return };
    assert_eq!(survive(1).unwrap(), first);
    assert_ne!(survive(2).unwrap(), first);
}

#[test]
fn what_is_still_used_is_told() {
    let Some(mut lab) = Lab::new(Options::default()) else { return };
    let error = Disk::mount(&lab.backing(), &lab.backing(), Options::default()).unwrap_err();
    assert!(error.to_string().contains("one of them lies in the other"), "{error}");
    let missing = Disk::mount(Path::new("/nowhere"), &lab.at(""), Options::default()).unwrap_err();
    assert!(missing.to_string().contains("find its backing folder"), "{missing}");
    let path = lab.disk().path().to_owned();
    assert!(path.ends_with("at"));
    lab.disk.take().unwrap().unmount().unwrap();
    assert_eq!(fs::read_dir(path).unwrap().count(), 0);
}

/// What must be on the disk, and what a cut must leave.
#[derive(Clone, Debug, Default)]
struct Model {
    live: BTreeMap<String, usize>,
    durable: BTreeMap<String, usize>,
    /// Contents of each file by its number: as seen, and durable.
    contents: Vec<(Vec<u8>, Vec<u8>)>,
    /// Changes of size since the last sync, and files that were renamed over another.
    sizes: Vec<(usize, Option<usize>)>,
    replace_by_rename: bool,
}

impl Model {
    fn sync(&mut self, file: Option<usize>) {
        self.durable = self.live.clone();
        let mut flushed = Vec::new();
        for (id, size) in self.sizes.drain(..) {
            match size {
                Some(_) if flushed.contains(&id) => (), // what is durable is newer
                Some(size) => self.contents[id].1.resize(size, 0),
                None => {
                    self.contents[id].1 = self.contents[id].0.clone();
                    flushed.push(id);
                }
            }
        }
        if let Some(id) = file {
            self.contents[id].1 = self.contents[id].0.clone();
        }
    }

    fn cut(&mut self) {
        self.live = self.durable.clone();
        self.sizes.clear();
        self.contents.iter_mut().for_each(|(seen, durable)| *seen = durable.clone());
    }
}

/// Random operations on a few files, in the manner of fsx.
#[test]
fn random_operations_leave_what_the_model_has() {
    for seed in 0..12 {
        let options = Options { replace_by_rename: seed % 2 == 0, ..Options::default() };
        let Some(mut lab) = Lab::new(options) else { return };
        let mut draw = Seed(seed).draw("fsx", 0);
        let mut model = Model { replace_by_rename: options.replace_by_rename, ..Model::default() };
        for _ in 0..5 {
            for _ in 0..200 {
                step(&lab, &mut model, &mut draw);
            }
            compare(&lab.at(""), &model.live, |id| &model.contents[id].0);
            lab.cut();
            model.cut();
            compare(&lab.at(""), &model.live, |id| &model.contents[id].0);
            compare(&lab.backing(), &model.live, |id| &model.contents[id].0);
        }
    }
}

fn step(lab: &Lab, model: &mut Model, draw: &mut Draw) {
    const MOST: u64 = 40_000;
    let name = format!("f{}", draw.below(6));
    let path = lab.at(&name);
    let there = model.live.get(&name).copied();
    match (draw.below(12), there) {
        (0..=4, _) => {
            let id = there.unwrap_or_else(|| {
                model.contents.push(Default::default());
                model.live.insert(name, model.contents.len() - 1);
                model.contents.len() - 1
            });
            let (offset, len) = (draw.below(MOST) as usize, 1 + draw.below(9_000) as usize);
            let bytes: Vec<u8> = (0..len).map(|_| draw.bits() as u8).collect();
            open(&path).write_all_at(&bytes, offset as u64).unwrap();
            let seen = &mut model.contents[id].0;
            seen.resize(seen.len().max(offset + len), 0);
            seen[offset..offset + len].copy_from_slice(&bytes);
        }
        (5, Some(id)) => {
            let size = draw.below(MOST) as usize;
            open(&path).set_len(size as u64).unwrap();
            if model.contents[id].0.len() != size {
                model.contents[id].0.resize(size, 0);
                model.sizes.push((id, Some(size)));
            }
        }
        (6, Some(_)) => {
            let new = format!("f{}", draw.below(6));
            fs::rename(&path, lab.at(&new)).unwrap();
            let id = model.live.remove(&name).unwrap();
            let replaced = model.live.insert(new.clone(), id);
            if model.replace_by_rename && replaced.is_some() && new != name {
                model.sizes.push((id, None));
            }
        }
        (7, Some(_)) => {
            fs::remove_file(&path).unwrap();
            model.live.remove(&name);
        }
        (8, Some(id)) => {
            open(&path).sync_data().unwrap();
            model.sync(Some(id));
        }
        (9, _) if draw.chance(1, 4) => {
            File::open(lab.at("")).unwrap().sync_all().unwrap();
            model.sync(None);
        }
        (_, Some(id)) => {
            let (seen, offset) = (&model.contents[id].0, draw.below(MOST) as usize);
            let mut bytes = vec![0; draw.below(9_000) as usize];
            let got = open(&path).read_at(&mut bytes, offset as u64).unwrap();
            let want = seen.get(offset..).unwrap_or_default();
            assert_eq!(bytes[..got], want[..want.len().min(bytes.len())]);
        }
        _ => (),
    }
}

fn compare<'a>(folder: &Path, names: &BTreeMap<String, usize>, contents: impl Fn(usize) -> &'a Vec<u8>) {
    let mut there: Vec<String> =
        fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    there.sort();
    assert_eq!(there, names.keys().cloned().collect::<Vec<_>>(), "{}", folder.display());
    for (name, &id) in names {
        let (got, want) = (fs::read(folder.join(name)).unwrap(), contents(id));
        assert_eq!((got.len(), got == *want), (want.len(), true), "{name} in {}", folder.display());
    }
}
