//! Sources in storage with the S3 protocol: a server of other hands, which checks signatures, over a folder.

use crate::cluster::{Cluster, canonical};
use crate::{ask, capture, two_threads};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use query::storage::Settings;
use query::{Error, Options, Session};
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use s3s_fs::FileSystem;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use trace::import::apart::{Folder, Worker};
use trace::import::{Spec, import};

/// A server until it is dropped. Its buckets are folders in `folder`.
struct Server {
    folder: TempDir,
    at: SocketAddr,
    _runtime: Runtime,
}

impl Server {
    fn up() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let mut service = S3ServiceBuilder::new(FileSystem::new(folder.path()).unwrap());
        service.set_auth(SimpleAuth::from_single("reader", "of traces"));
        let service = service.build();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let at = listener.local_addr().unwrap();
        runtime.spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let service = service.clone();
                tokio::spawn(async move {
                    let _ = Builder::new(TokioExecutor::new())
                        .serve_connection(TokioIo::new(socket), service)
                        .await;
                });
            }
        });
        fs::create_dir(folder.path().join("traces")).unwrap();
        Self { folder, at, _runtime: runtime }
    }

    /// Variables of the environment of its users.
    fn environment(&self, secret: &str) -> Vec<(String, String)> {
        [
            ("AWS_ENDPOINT_URL", format!("http://{}", self.at)),
            ("AWS_ACCESS_KEY_ID", "reader".into()),
            ("AWS_SECRET_ACCESS_KEY", secret.into()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec()
    }

    fn options(&self) -> Options {
        Options { storage: Settings::from_variables(self.environment("of traces")), ..two_threads() }
    }

    /// The folder of the bucket.
    fn bucket(&self) -> PathBuf {
        self.folder.path().join("traces")
    }
}

fn stored(name: &str) -> PathBuf {
    format!("s3://traces/{name}").into()
}

/// Captures, one of them compressed, and what is imported from them, in the bucket.
fn fill(bucket: &Path) {
    for (name, count, seed) in [("one.pcap", 3000, 1), ("two.pcap", 2000, 2)] {
        capture::write(&bucket.join(name), count, seed);
    }
    let spec = Spec { rows_per_file: 700, rows_per_group: 350, ..Spec::default() };
    let day = bucket.join("day 1+2 100%");
    import(&[bucket.join("one.pcap")], &day, &spec, &mut |_| {}).unwrap();
    let captures = [bucket.join("one.pcap"), bucket.join("two.pcap")];
    let mut folder = Folder::open(&bucket.join("apart"), &spec, false).unwrap();
    let (tasks, stop) = (folder.tasks(&captures).unwrap(), AtomicBool::new(false));
    let here: Box<Worker<'_>> = Box::new(|task, progress| match task.run(&stop, progress) {
        Ok(imported) => Ok(Ok(imported)),
        Err(error) => Ok(Err(error.to_string())),
    });
    assert_eq!(folder.work(tasks, vec![here], &stop, &mut |_| {}).unwrap().imported, 2);
}

const STATEMENTS: [&str; 2] = [
    "SELECT type_name(qtype) AS type, rcode, count(*) AS n, sum(time_ns) AS t FROM queries GROUP BY ALL",
    "SELECT qname, src FROM queries WHERE under(qname, 'org.') ORDER BY qname, src LIMIT 50",
];

#[test]
fn rows_are_those_of_the_same_files_here() {
    let server = Server::up();
    fill(&server.bucket());
    let cluster = Cluster::up_with(&server.environment("of traces"));
    let one_file = fs::read_dir(server.bucket().join("day 1+2 100%")).unwrap().next().unwrap().unwrap();
    let one_file = format!("day 1+2 100%/{}", one_file.file_name().into_string().unwrap());
    let cases: [&[&str]; 6] = [
        &["day 1+2 100%"],
        &["day 1+2 100%/"],
        &[&one_file],
        &["apart"],
        &["one.pcap"],
        &["one.pcap", "two.pcap", "day 1+2 100%"],
    ];
    for names in cases {
        let here: Vec<PathBuf> = names.iter().map(|name| server.bucket().join(name)).collect();
        let there: Vec<PathBuf> = names.iter().map(|name| stored(name)).collect();
        for sql in STATEMENTS {
            let expected = canonical(ask(&here, &two_threads(), sql, &[]).unwrap());
            assert!(!expected.is_empty());
            for options in
                [server.options(), Options { storage: server.options().storage, ..cluster.options(5) }]
            {
                let rows =
                    ask(&there, &options, sql, &[]).unwrap_or_else(|e| panic!("{names:?}, {sql}: {e}"));
                assert_eq!(canonical(rows), expected, "{names:?}, {sql}, {options:?}");
            }
        }
    }
    // Sources here and there are one table, and each has its name.
    let both = [server.bucket().join("one.pcap"), stored("apart")];
    let options = Options { apart: true, ..server.options() };
    let sql = "SELECT source, count(*) AS n FROM queries GROUP BY source ORDER BY source";
    let rows = ask(&both, &options, sql, &[]).unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["source"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 3, "{rows:?}");
    assert!(names[1..].iter().all(|name| name.starts_with("s3://traces/apart/")), "{rows:?}");
}

#[test]
fn what_is_wrong_in_storage_is_told() {
    let server = Server::up();
    let bucket = server.bucket();
    fill(&bucket);
    let sql = STATEMENTS[0];
    let said = |source: PathBuf, options: &Options| match ask(&[source], options, sql, &[]) {
        Err(error) => error.to_string(),
        Ok(rows) => panic!("{rows:?}"),
    };
    let ours = server.options();
    let error = said(stored("nothing"), &ours);
    assert_eq!(
        error,
        "s3://traces/nothing: there is no object of this name, and no Parquet file of 'dnsrack trace import' below it"
    );
    let error = said("s3://elsewhere/day".into(), &ours);
    assert!(error.starts_with("s3://elsewhere/day: storage cannot be read: NoSuchBucket"), "{error}");
    let error = said("s3://".into(), &ours);
    assert_eq!(error, "s3://: it names no bucket: the form is s3://BUCKET/KEY");
    // Someone without a key: no service is asked for one.
    let error = said(stored("one.pcap"), &two_threads());
    assert!(
        error.starts_with("s3://traces/one.pcap: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set"),
        "{error}"
    );
    // Someone who may not read.
    let other = Settings::from_variables(server.environment("wrong"));
    let error = said(stored("one.pcap"), &Options { storage: other.clone(), ..two_threads() });
    assert!(error.starts_with("s3://traces/one.pcap: storage does not let this user read it"), "{error}");
    assert!(!format!("{other:?}").contains("wrong"), "a secret is shown: {other:?}");
    // Files that are cut, and one that is none.
    let cut = |from: &Path, to: &str| {
        let octets = fs::read(from).unwrap();
        fs::write(bucket.join(to), &octets[..octets.len() / 2]).unwrap();
    };
    let part = fs::read_dir(bucket.join("day 1+2 100%")).unwrap().next().unwrap().unwrap().path();
    cut(&part, "cut.parquet");
    let error = said(stored("cut.parquet"), &ours);
    assert!(error.starts_with("s3://traces/cut.parquet: no Parquet file that can be read"), "{error}");
    fs::write(bucket.join("text.pcap"), "no capture at all").unwrap();
    let error = said(stored("text.pcap"), &ours);
    assert!(error.starts_with("s3://traces/text.pcap: not a capture that can be read"), "{error}");
    fs::create_dir(bucket.join("run")).unwrap();
    fs::write(bucket.join("run/run.toml"), "").unwrap();
    let error = said(stored("run"), &ours);
    assert!(error.contains("run directories are not read from storage"), "{error}");
    // Nobody is there.
    let nobody = Settings::from_variables([
        ("AWS_ENDPOINT_URL".to_owned(), "http://127.0.0.1:1".to_owned()),
        ("AWS_SKIP_SIGNATURE".to_owned(), "true".to_owned()),
    ]);
    let error = said(stored("one.pcap"), &Options { storage: nobody, ..two_threads() });
    assert!(error.starts_with("s3://traces/one.pcap: storage cannot be read: "), "{error}");
    assert!(error.contains("AWS_ENDPOINT_URL"), "{error}");
}

/// Threads that read a capture may be in the middle of it when the statement is over. They end without a word.
#[test]
fn a_capture_need_not_be_read_to_its_end() {
    let server = Server::up();
    capture::write(&server.bucket().join("long.pcap"), 200_000, 1);
    for _ in 0..5 {
        let output = Command::new(env!("CARGO_BIN_EXE_dnsrack-query"))
            .args([
                "SELECT qname FROM queries LIMIT 3",
                "s3://traces/long.pcap",
                "--threads",
                "3",
                "--format",
                "csv",
            ])
            .envs(server.environment("of traces"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 4);
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    }
}

/// Settings are not in a plan: each machine has its own. An object that is replaced while the statement is made is another one.
#[test]
fn a_cluster_reads_with_settings_of_its_own_and_what_was_asked_for() {
    let server = Server::up();
    fill(&server.bucket());
    let cluster = Cluster::up_with(&server.environment("wrong"));
    let ours = Options { storage: server.options().storage, ..cluster.options(3) };
    for (source, why) in [("one.pcap", "storage does not let this user read it"), ("apart", "403 Forbidden")]
    {
        let error = ask(&[stored(source)], &ours, STATEMENTS[0], &[]).unwrap_err().to_string();
        assert!(error.contains(source) && error.contains(why), "{source}: {error}");
    }
    let cluster = Cluster::up_with(&server.environment("of traces"));
    let options = Options { storage: server.options().storage, ..cluster.options(3) };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let error = runtime.block_on(async {
        let session = Session::open(&[stored("one.pcap")], &options).await.unwrap();
        fs::copy(server.bucket().join("two.pcap"), server.bucket().join("one.pcap")).unwrap();
        match session.ask(STATEMENTS[0], "SQL", &Default::default()).await {
            Err(error) => error,
            Ok(_) => panic!("it is another object"),
        }
    });
    assert!(matches!(error, Error::Cluster(_)), "{error:?}");
    assert!(error.to_string().contains("s3://traces/one.pcap: on "), "{error}");
    assert!(error.to_string().contains("it is another file"), "{error}");
}
