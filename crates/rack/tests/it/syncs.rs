//! Judging traces: lines as strace 6.1 writes them, with what honest and lying servers do in between.

use measure::Seed;
use rack::syncs::{Analysis, Answer, Basis, Missing, Report, Scope, SyncVerdict, fuzz_trace};
use std::fmt::Write as _;
use std::path::Path;

/// A trace that is written line by line.
#[derive(Default)]
struct Trace {
    text: String,
    lines: u64,
}

impl Trace {
    fn line(&mut self, pid: u32, what: &str) -> &mut Self {
        self.lines += 1;
        writeln!(self.text, "{pid}  1795325438.{:09} {what}", self.lines * 1000).unwrap();
        self
    }

    /// UPDATE number `id` (below 100) of a name, over UDP.
    fn request(&mut self, id: u32, name: &str) -> &mut Self {
        let octets = format!(
            r"\0\{id:o}(\0\0\1\0\0\0\1\0\0\7example\0\0\6\0\1\{:o}{name}\300\f\0\1\0\1\0\0\0<\0\4\300\0\2\t",
            name.len()
        );
        self.line(
            10,
            &format!(
                r#"recvmmsg(26<UDP:[127.0.0.1:53]>, [{{msg_hdr={{msg_name={{sa_family=AF_INET, sin_port=htons(4000), sin_addr=inet_addr("127.0.0.1")}}, msg_namelen=28 => 16, msg_iov=[{{iov_base="{octets}", iov_len=65536}}], msg_iovlen=1, msg_controllen=0, msg_flags=0}}, msg_len=49}}], 19, 0, NULL) = 1 <0.000014211>"#
            ),
        )
    }

    fn answer(&mut self, pid: u32, id: u32, rcode: u8) -> &mut Self {
        self.line(
            pid,
            &format!(
                r#"sendmsg(26<UDP:[127.0.0.1:53]>, {{msg_name={{sa_family=AF_INET, sin_port=htons(4000), sin_addr=inet_addr("127.0.0.1")}}, msg_namelen=16, msg_iov=[{{iov_base="\0\{id:o}\250\{rcode:o}\0\1\0\0\0\0\0\0\7example\0\0\6\0\1", iov_len=25}}], msg_iovlen=1, msg_controllen=0, msg_flags=0}}, 0) = 25 <0.0001>"#
            ),
        )
    }

    fn write(&mut self, file: &str, content: &str) -> &mut Self {
        self.line(11, &format!(r#"write(31</z/{file}>, "{content}", 20) = 20 <0.000047260>"#))
    }

    fn sync(&mut self, file: &str) -> &mut Self {
        self.line(11, &format!("fsync(31</z/{file}>) = 0 <0.000681342>"))
    }

    fn analysed(&self) -> (Vec<Answer>, Report) {
        let mut analysis = Analysis::new(Scope { folders: vec!["/z".into()], except: vec!["/z/log".into()] });
        let mut answers = Vec::new();
        for line in self.text.lines() {
            analysis.line(line.as_bytes(), &mut |answer| answers.push(answer));
        }
        (answers, analysis.finish())
    }

    fn one(&self) -> SyncVerdict {
        let (answers, report) = self.analysed();
        assert_eq!((answers.len(), report.foreign_lines, report.unanswered), (1, 0, 0));
        answers[0].verdict.clone()
    }
}

fn lacks(file: &str, missing: Missing) -> SyncVerdict {
    SyncVerdict::NotCovered { file: Path::new("/z").join(file), missing }
}

#[test]
fn a_sync_after_the_last_write_covers() {
    let mut honest = Trace::default();
    honest.request(1, "u000001").write("log", "updating u000001").write("z.jnl", r"\7u000001\7example");
    honest.sync("z.jnl").write("z.jnl", "header").sync("z.jnl").answer(10, 1, 0);
    assert_eq!(honest.one(), SyncVerdict::Covered);
    let (answers, report) = honest.analysed();
    assert_eq!((answers[0].basis, answers[0].lines, &*answers[0].name), (Basis::All, (1, 7), "u000001"));
    assert_eq!((report.covered, report.syncs, report.sync_latency.count()), (1, 2, 2));
    assert_eq!(report.syncs_per_answer(), Some(2.0));
    assert_eq!(report.files[Path::new("/z/z.jnl")].writes, 2);
    assert_eq!(report.files.len(), 1, "the log does not count");
}

#[test]
fn what_is_missing_is_named() {
    let mut none = Trace::default();
    none.request(1, "u000001").write("z.jnl", "u000001").answer(10, 1, 0);
    assert_eq!(none.one(), lacks("z.jnl", Missing::Sync));

    let mut before = Trace::default();
    before
        .request(1, "u000001")
        .write("z.jnl", "u000001")
        .sync("z.jnl")
        .write("z.jnl", "header")
        .answer(10, 1, 0);
    assert_eq!(before.one(), lacks("z.jnl", Missing::Sync));

    let mut after = Trace::default();
    after.request(1, "u000001").write("z.jnl", "u000001").answer(10, 1, 0).sync("z.jnl");
    assert_eq!(after.one(), lacks("z.jnl", Missing::Sync));

    // Begun before the answer, over after it; and one that was begun before the write was over.
    let mut during = Trace::default();
    during.request(1, "u000001").write("z.jnl", "u000001").line(12, "fsync(31</z/z.jnl> <unfinished ...>");
    during.answer(10, 1, 0).line(12, "<... fsync resumed>) = 0 <0.01>");
    assert_eq!(during.one(), lacks("z.jnl", Missing::Sync));
    let mut crossing = Trace::default();
    crossing.request(1, "u000001").line(12, "fsync(31</z/z.jnl> <unfinished ...>").write("z.jnl", "u000001");
    crossing.line(12, "<... fsync resumed>) = 0 <0.01>").answer(10, 1, 0);
    assert_eq!(crossing.one(), lacks("z.jnl", Missing::Sync));

    let mut failed = Trace::default();
    failed.request(1, "u000001").write("z.jnl", "u000001");
    failed.line(11, "fsync(31</z/z.jnl>) = -1 EIO (Input/output error) <0.0006>").answer(10, 1, 0);
    assert_eq!(failed.one(), lacks("z.jnl", Missing::SyncFailed));
    assert_eq!(failed.analysed().1.syncs_failed, 1);

    // A dump of the zone as it was before is none of its business.
    let mut dump = Trace::default();
    dump.request(2, "u000002")
        .write("z.tmp", "u000001")
        .write("z.jnl", "u000002")
        .sync("z.jnl")
        .answer(10, 2, 0);
    assert_eq!(dump.one(), SyncVerdict::Covered);

    let mut other = Trace::default();
    other.request(1, "u000001").write("z.jnl", "u000001").sync("a.jnl").answer(10, 1, 0);
    assert_eq!(other.one(), lacks("z.jnl", Missing::Sync));
    assert_eq!(other.analysed().1.first_not_covered.unwrap().name, "u000001");

    // SQLite commits by the removal of its journal.
    let mut removed = Trace::default();
    removed.request(1, "u000001").write("p.db", "u000001").sync("p.db");
    removed.line(11, r#"unlink("/z/p.db-journal") = 0 <0.00005>"#).answer(11, 1, 0);
    assert_eq!(removed.one(), lacks("p.db-journal", Missing::Name));
    let mut with_folder = Trace::default();
    with_folder.request(1, "u000001").write("p.db", "u000001").sync("p.db");
    with_folder.line(11, r#"unlinkat(AT_FDCWD</z>, "p.db-journal", 0) = 0 <0.00005>"#);
    with_folder.line(11, "fdatasync(9</z>) = 0 <0.00005>").answer(11, 1, 0);
    assert_eq!(with_folder.one(), SyncVerdict::Covered);
}

#[test]
fn synchronous_writes_and_mappings() {
    let mut dsync = Trace::default();
    dsync.line(
        11,
        r#"openat(AT_FDCWD</z>, "data.mdb", O_WRONLY|O_DSYNC|O_CLOEXEC) = 31</z/data.mdb> <0.00001>"#,
    );
    dsync.request(1, "u000001").write("data.mdb", "u000001").answer(10, 1, 0);
    assert_eq!(dsync.one(), SyncVerdict::Covered);
    assert_eq!(dsync.analysed().1.syncs, 1);
    // The same number of another opening of it.
    let mut reopened = Trace::default();
    reopened.line(11, r#"openat(AT_FDCWD</z>, "d", O_WRONLY|O_SYNC) = 31</z/d> <0.00001>"#);
    reopened.line(11, r#"openat(AT_FDCWD</z>, "O_SYNC/../d", O_WRONLY) = 31</z/d> <0.00001>"#);
    reopened.request(1, "u000001").write("d", "u000001").answer(10, 1, 0);
    assert_eq!(reopened.one(), lacks("d", Missing::Sync));

    let mapped = |flags: &str, sync: &str| {
        let mut trace = Trace::default();
        trace.line(
            11,
            &format!("mmap(NULL, 8192, {flags}, MAP_SHARED, 12</z/data.mdb>, 0) = 0x7fb503e00000 <0.0001>"),
        );
        trace.line(11, "mmap(NULL, 1152, PROT_READ|PROT_WRITE, MAP_SHARED, 11</z/lock.mdb>, 0) = 0x7fb000000000 <0.0001>");
        trace.request(1, "u000001").line(11, sync).answer(10, 1, 0);
        trace.one()
    };
    let both = "PROT_READ|PROT_WRITE";
    assert_eq!(
        mapped(both, "msync(0x7fb503e00000, 8192, MS_ASYNC) = 0 <0.0001>"),
        lacks("data.mdb", Missing::Map)
    );
    assert_eq!(mapped(both, "msync(0x7fb503e01000, 4096, MS_SYNC) = 0 <0.0001>"), SyncVerdict::Covered);
    assert_eq!(
        mapped("PROT_READ", "msync(0x7fb503e01000, 4096, MS_SYNC) = 0 <0.0001>"),
        SyncVerdict::NothingWritten
    );
}

#[test]
fn one_sync_covers_many_answers() {
    let mut bulk = Trace::default();
    for id in 1..=9 {
        bulk.request(id, &format!("u00000{id}"));
    }
    bulk.write("data.mdb", "u000001 u000002 u000003 u000004 U000005 u000006 u000007 u000008")
        .sync("data.mdb");
    for id in 1..=8 {
        bulk.answer(12, id, 0);
    }
    // The ninth comes with the next, which is under way when the first answers go out.
    bulk.write("data.mdb", "u000008 u000009").answer(12, 9, 0).sync("data.mdb");
    let (answers, report) = bulk.analysed();
    assert_eq!((report.updates, report.covered, report.not_covered, report.by_order), (9, 8, 1, 0));
    assert!(answers.iter().all(|answer| answer.basis == Basis::Names));
    assert_eq!(answers[8].verdict, lacks("data.mdb", Missing::Sync));
    assert_eq!(report.syncs_per_answer(), Some(2.0 / 9.0));
}

#[test]
fn without_the_names_the_order_counts() {
    let mut trace = Trace::default();
    trace.request(1, "a").request(2, "b").write("x", "1").sync("x").answer(10, 1, 0).answer(10, 2, 0);
    let (answers, report) = trace.analysed();
    assert_eq!((report.covered, report.by_order), (2, 2));
    assert_eq!(answers[0].name, "");
    let mut lying = Trace::default();
    lying.request(1, "a").request(2, "b").write("x", "1").answer(10, 1, 0).answer(10, 2, 0);
    assert_eq!(lying.analysed().1.not_covered, 2);
}

#[test]
fn refusals_repeats_and_silence_are_no_acknowledgements() {
    let mut trace = Trace::default();
    trace
        .request(1, "u000001")
        .answer(10, 1, 5)
        .request(2, "u000002")
        .request(2, "u000002")
        .request(3, "u000003");
    trace.answer(10, 2, 0).answer(10, 2, 0).line(10, "+++ killed by SIGKILL +++");
    let (answers, report) = trace.analysed();
    assert_eq!(answers.len(), 2);
    assert_eq!((report.updates, report.refused, report.nothing_written, report.unanswered), (4, 1, 1, 1));
}

#[test]
fn updates_over_tcp_come_in_pieces() {
    let mut trace = Trace::default();
    let socket = "28<TCP:[127.0.0.1:53->127.0.0.1:43265]>";
    let receive = |octets: &str, n: u32| {
        format!(
            r#"recvmsg({socket}, {{msg_name=NULL, msg_namelen=0, msg_iov=[{{iov_base="{octets}", iov_len=2}}], msg_iovlen=1, msg_controllen=0, msg_flags=0}}, MSG_DONTWAIT) = {n} <0.00002>"#
        )
    };
    trace.line(10, &receive(r"\0001", 2));
    trace.line(10, &receive(r"\4t(\0\0\1\0\0\0\1\0\0\7exam", 18));
    trace.line(10, &receive(r"ple\0\0\6\0\1\7u000002\300\f\0\1\0\1\0\0\0<\0\4\300\0\2\t", 31));
    trace.write("z.jnl", "u000002");
    trace.line(
        10,
        &format!(r#"writev({socket}, [{{iov_base="\0\31", iov_len=2}}, {{iov_base="\4t\250\0\0\1\0\0\0\0\0\0\7example\0\0\6\0\1", iov_len=25}}], 2) = 27 <0.0001>"#),
    );
    assert_eq!(trace.one(), lacks("z.jnl", Missing::Sync));
    assert_eq!(trace.analysed().0[0].client, "127.0.0.1:43265".parse().unwrap());
}

#[test]
fn a_ring_is_told() {
    let mut trace = Trace::default();
    trace
        .line(10, "io_uring_setup(256, {flags=0}) = 9<anon_inode:[io_uring]> <0.0001>")
        .request(1, "u000001")
        .answer(10, 1, 0);
    assert_eq!(trace.analysed().1.blind.len(), 1);
    assert_eq!(trace.one(), SyncVerdict::NothingWritten);
}

#[test]
fn damaged_traces_are_read_to_their_end() {
    let mut trace = Trace::default();
    for id in 1..=40 {
        trace.request(id, &format!("u0000{id:02}")).write("z.jnl", &format!("u0000{id:02}"));
        trace.line(12, "fsync(31</z/z.jnl> <unfinished ...>").line(11, r#"rename("a", "b") = 0 <0.1>"#);
        trace.line(12, "<... fsync resumed>) = 0 <0.01>").answer(10, id, 0);
        trace.line(10, r#"read(28<TCP:[[::1]:53->[::1]:43265]>, "\0001\4t(\0\0\1", 65537) = 8 <0.00002>"#);
    }
    let whole = trace.text.into_bytes();
    fuzz_trace(&whole);
    let mut draw = Seed(1).draw("damage", 0);
    for _ in 0..400 {
        let mut bytes = whole.clone();
        for _ in 0..1 + draw.below(40) {
            let at = draw.below(bytes.len() as u64) as usize;
            match draw.below(4) {
                0 => bytes[at] = draw.bits() as u8,
                1 => bytes.truncate(at + 1),
                2 if bytes.len() > 1 => drop(bytes.remove(at)),
                _ => bytes[at] = b"\"\\<>=(){}[]\n07"[draw.below(14) as usize],
            }
        }
        fuzz_trace(&bytes);
    }
}
