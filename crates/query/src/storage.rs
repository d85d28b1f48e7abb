//! Storage with Amazon's S3 protocol: captures and imported traces named `s3://BUCKET/KEY`.
//!
//! [`Settings`] hold its address and the credentials. Each machine of a cluster has its own: the plan of a statement never contains them.

use crate::Error;
use crate::scan::{ErrorText, KnownFile};
use crate::sources::{self, Source};
use bytes::Bytes;
use datafusion::common::{DataFusionError, Result as EngineResult};
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::execution::SessionState;
use datafusion::execution::object_store::{DefaultObjectStoreRegistry, ObjectStoreRegistry, ObjectStoreUrl};
use datafusion::execution::runtime_env::RuntimeEnv;
use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path as Key;
use object_store::{ClientOptions, ObjectMeta, ObjectStore, ObjectStoreExt, RetryConfig};
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{Receiver, channel};
use trace::read::{Local, Place};
use url::Url;

/// The prefix of sources in storage.
const SCHEME: &str = "s3://";
/// A request that fails is tried again for at most this long.
const PATIENCE: Duration = Duration::from_secs(30);
/// And at most this many times.
const RETRIES: usize = 5;
/// The number of Parquet files that are checked at the same time.
const AT_ONCE: usize = 16;
/// The number of pieces of a capture that are fetched ahead of the reader.
const CHUNKS: usize = 8;

/// Settings that give credentials, or say that none are needed.
const KEYS: [AmazonS3ConfigKey; 6] = [
    AmazonS3ConfigKey::AccessKeyId,
    AmazonS3ConfigKey::SkipSignature,
    AmazonS3ConfigKey::WebIdentityTokenFile,
    AmazonS3ConfigKey::ContainerCredentialsRelativeUri,
    AmazonS3ConfigKey::ContainerCredentialsFullUri,
    AmazonS3ConfigKey::MetadataEndpoint,
];
const NO_KEY: &str = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set. Set AWS_SKIP_SIGNATURE=true for what everybody may read, or \
                      AWS_METADATA_ENDPOINT=http://169.254.169.254 on a machine of Amazon's cloud that has a role";

/// True if the name of a source begins with `s3://`.
pub(crate) fn is_stored(source: &Path) -> bool {
    source.as_os_str().as_encoded_bytes().starts_with(SCHEME.as_bytes())
}

/// Address and credentials of storage, from the environment variables that Amazon's tools use.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Settings(Vec<(AmazonS3ConfigKey, String)>);

impl fmt::Debug for Settings {
    /// Without their values, which are secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(key, _)| key)).finish()
    }
}

impl Settings {
    /// From the variables of the environment whose names begin with `AWS_`.
    pub fn from_env() -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self::from_variables(std::env::vars_os().filter_map(text))
    }

    /// From variables such as `AWS_ACCESS_KEY_ID` and `AWS_ENDPOINT_URL`. Others are ignored.
    pub fn from_variables(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let known = |(name, value): (String, String)| {
            let name = name.strip_prefix("AWS_").map(|_| name.to_ascii_lowercase())?;
            Some((name.parse().ok()?, value))
        };
        Self(variables.into_iter().filter_map(known).collect())
    }

    fn open(&self, bucket: &str) -> EngineResult<Arc<dyn ObjectStore>> {
        // Without any of these, the metadata service of Amazon's cloud would be asked, wherever we are.
        if !self.0.iter().any(|(key, _)| KEYS.contains(key)) {
            return Err(ErrorText::of(NO_KEY));
        }
        // Without TLS only where the user's address says so.
        let is_plain = |(key, value): &(AmazonS3ConfigKey, String)| {
            [AmazonS3ConfigKey::Endpoint, AmazonS3ConfigKey::S3Endpoint].contains(key)
                && value.starts_with("http://")
        };
        let retry = RetryConfig { max_retries: RETRIES, retry_timeout: PATIENCE, ..RetryConfig::default() };
        let options = ClientOptions::new().with_allow_http(self.0.iter().any(is_plain));
        let builder = AmazonS3Builder::new().with_client_options(options).with_retry(retry);
        let builder = self.0.iter().fold(builder, |builder, (key, value)| builder.with_config(*key, value));
        Ok(Arc::new(builder.with_bucket_name(bucket).build()?))
    }
}

/// The files of this machine, and the buckets of storage, which are opened when they are first asked for.
#[derive(Debug)]
pub(crate) struct Stores {
    settings: Settings,
    open: DefaultObjectStoreRegistry,
}

impl Stores {
    pub fn new(settings: &Settings) -> Arc<Self> {
        Arc::new(Self { settings: settings.clone(), open: DefaultObjectStoreRegistry::new() })
    }
}

impl ObjectStoreRegistry for Stores {
    fn register_store(&self, url: &Url, store: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        self.open.register_store(url, store)
    }

    fn get_store(&self, url: &Url) -> EngineResult<Arc<dyn ObjectStore>> {
        match (self.open.get_store(url), url.host_str()) {
            (Err(_), Some(bucket)) if url.as_str().starts_with(SCHEME) => {
                let store = self.settings.open(bucket)?;
                self.open.register_store(url, store.clone());
                Ok(store)
            }
            (known, _) => known,
        }
    }
}

/// An object, or all objects below a name.
struct Object<'a> {
    source: &'a Path,
    bucket: ObjectStoreUrl,
    key: Key,
    store: Arc<dyn ObjectStore>,
}

impl<'a> Object<'a> {
    /// Parses the name of a source. As with Amazon's tools, nothing in it is decoded: `%20` is not a space.
    fn find(source: &'a Path, runtime: &RuntimeEnv) -> Result<Self, Error> {
        let wrong = |what: String| Error::Storage { name: source.to_owned(), what };
        let name = source.to_str().and_then(|text| text.strip_prefix(SCHEME)).unwrap_or_default();
        let (bucket, key) = name.split_once('/').unwrap_or((name, ""));
        let no_name = |_| wrong("it has not the form s3://BUCKET/KEY".into());
        if bucket.is_empty() {
            return Err(wrong("it names no bucket: the form is s3://BUCKET/KEY".into()));
        }
        let bucket = ObjectStoreUrl::parse(format!("{SCHEME}{bucket}")).map_err(no_name)?;
        let key = Key::parse(key.trim_end_matches('/')).map_err(|e| wrong(e.to_string()))?;
        let store = runtime.object_store(&bucket).map_err(|e| match e {
            DataFusionError::ObjectStore(e) => wrong(text_of(&e)),
            DataFusionError::External(e) => wrong(e.to_string()),
            e => wrong(e.to_string()),
        })?;
        Ok(Self { source, bucket, key, store })
    }

    fn failed(&self) -> impl Fn(object_store::Error) -> Error + Copy + '_ {
        |error| Error::Storage { name: self.source.to_owned(), what: text_of(&error) }
    }

    /// Its name, as a source has it.
    fn name(&self, key: &Key) -> PathBuf {
        format!("{}{key}", self.bucket).into()
    }
}

/// Turns an error of the storage into a sentence for the user.
pub(crate) fn text_of(error: &object_store::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    match error {
        object_store::Error::NotFound { .. } => "there is no such object, or no such bucket".into(),
        object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. } => {
            "storage does not let this user read it: see AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY".into()
        }
        _ => {
            // What the server says is XML.
            let text = cause.to_string();
            let code = text.split_once("<Code>").and_then(|(_, rest)| Some(rest.split_once("</Code>")?.0));
            let why = code.unwrap_or_else(|| text.trim_end_matches(": "));
            format!("storage cannot be read: {why} (AWS_ENDPOINT_URL says where it is)")
        }
    }
}

/// Finds out what a name in storage stands for: a capture, a Parquet file, a folder of Parquet files, or the folders of captures that were
/// imported apart.
pub(crate) async fn at(session: &SessionState, source: &Path) -> Result<Vec<Source>, Error> {
    let object = Object::find(source, session.runtime_env())?;
    let failed = object.failed();
    let inside = match object.store.list_with_delimiter(Some(&object.key)).await {
        Ok(inside) if !inside.objects.is_empty() || !inside.common_prefixes.is_empty() => inside,
        // It is no folder. Not everybody who may read an object may list others.
        listed => match object.store.head(&object.key).await {
            Ok(_) if !is_parquet(&object.key) => return Ok(vec![Source::Capture(source.to_owned())]),
            Ok(file) => {
                check(session, &object, &file).await?;
                let files = vec![source.to_owned()];
                return Ok(vec![Source::Imported { path: source.to_owned(), files }]);
            }
            Err(object_store::Error::NotFound { .. }) => listed.map_err(failed)?,
            Err(error) => return Err(failed(error)),
        },
    };
    let named = |key: &Key, name: &str| key.filename() == Some(name);
    if inside.objects.iter().any(|file| named(&file.location, sources::MANIFEST)) {
        let is_whole = |key: &&Key| key.filename().is_some_and(|name| name.starts_with(sources::FOLDER));
        let mut all = Vec::new();
        for folder in inside.common_prefixes.iter().filter(is_whole) {
            let folder = format!("{}/", object.name(folder).display());
            all.extend(Box::pin(at(session, Path::new(&folder))).await?);
        }
        if !all.is_empty() {
            return Ok(all);
        }
    }
    let files: Vec<_> = inside.objects.iter().filter(|file| is_parquet(&file.location)).collect();
    if files.is_empty() {
        let what = match inside.objects.iter().any(|file| named(&file.location, "run.toml")) {
            true => "run directories are not read from storage: copy it to this machine".into(),
            false => {
                "there is no object of this name, and no Parquet file of 'dnsrack trace import' below it"
                    .into()
            }
        };
        return Err(Error::Storage { name: source.to_owned(), what });
    }
    let checks = files.iter().map(|file| check(session, &object, file));
    stream::iter(checks).buffered(AT_ONCE).try_collect::<Vec<()>>().await?;
    let mut files: Vec<PathBuf> = files.iter().map(|file| object.name(&file.location)).collect();
    files.sort();
    Ok(vec![Source::Imported { path: source.to_owned(), files }])
}

fn is_parquet(key: &Key) -> bool {
    key.extension() == Some("parquet")
}

/// Checks that a Parquet file is whole and has the columns of an imported trace.
async fn check(session: &SessionState, object: &Object<'_>, file: &ObjectMeta) -> Result<(), Error> {
    let format = ParquetFormat::new().with_force_view_types(false);
    let found = format.infer_schema(session, &object.store, std::slice::from_ref(file)).await;
    sources::check_columns(&object.name(&file.location), found.as_deref())
}

/// The name by which the engine reads a Parquet file.
pub(crate) fn engine_name(file: &Path, runtime: &RuntimeEnv) -> Result<String, Error> {
    if !is_stored(file) {
        return Ok(file.display().to_string());
    }
    // The engine takes names as URLs are written.
    let object = Object::find(file, runtime)?;
    let mut url = Url::parse(object.bucket.as_str()).expect("it was parsed before");
    url.path_segments_mut().expect("it has a bucket").clear().extend(object.key.parts());
    Ok(url.into())
}

/// A capture as it is now.
pub(crate) async fn known(file: &Path, runtime: &RuntimeEnv) -> io::Result<KnownFile> {
    if !is_stored(file) {
        return KnownFile::at(file);
    }
    let object = Object::find(file, runtime).map_err(io::Error::other)?;
    let now = object.store.head(&object.key).await.map_err(said)?;
    Ok(KnownFile { path: file.to_owned(), octets: now.size, modified: now.last_modified.timestamp() })
}

fn said(error: object_store::Error) -> io::Error {
    io::Error::other(text_of(&error))
}

/// Opens captures of this machine and of storage. Its methods block until storage answers, so call them only on threads that may block. The
/// requests are tasks of the runtime. When the runtime is shut down before such a thread has ended, its tasks are dropped, and the thread gets an
/// error; if it made the requests itself, it would panic.
pub(crate) struct Captures {
    runtime: Arc<RuntimeEnv>,
    tasks: Handle,
}

impl Captures {
    /// # Panics
    /// Outside of tokio's runtime.
    pub fn new(runtime: &Arc<RuntimeEnv>) -> Self {
        Self { runtime: runtime.clone(), tasks: Handle::current() }
    }

    /// A capture as it is now.
    pub fn known(&self, file: &Path) -> io::Result<KnownFile> {
        let (to, mut from) = channel(1);
        let (file, runtime) = (file.to_owned(), self.runtime.clone());
        self.tasks.spawn(async move { to.send(known(&file, &runtime).await).await });
        from.blocking_recv().unwrap_or_else(|| Err(io::Error::other(OVER)))
    }
}

/// The error of such a thread. No user sees it, since nobody reads the rows any more.
const OVER: &str = "the statement is over";

impl Place for Captures {
    fn open(&self, file: &Path) -> io::Result<Box<dyn Read + Send>> {
        if !is_stored(file) {
            return Local.open(file);
        }
        let object = Object::find(file, &self.runtime).map_err(io::Error::other)?;
        let (store, key) = (object.store, object.key);
        let (to, from) = channel(CHUNKS);
        self.tasks.spawn(async move {
            let mut octets = match store.get(&key).await {
                Ok(found) => found.into_stream(),
                Err(error) => stream::iter([Err(error)]).boxed(),
            };
            while let Some(chunk) = octets.next().await {
                // An empty piece would be the end.
                if matches!(&chunk, Ok(chunk) if chunk.is_empty()) {
                    continue;
                }
                let has_failed = chunk.is_err();
                if to.send(chunk.map_err(said)).await.is_err() || has_failed {
                    return;
                }
            }
            let _ = to.send(Ok(Bytes::new())).await;
        });
        Ok(Box::new(Fetched { from, chunk: Bytes::new(), is_over: false }))
    }

    fn can_reopen(&self, file: &Path) -> bool {
        is_stored(file) || Local.can_reopen(file)
    }
}

/// The octets of a capture, which a task fetches.
struct Fetched {
    from: Receiver<io::Result<Bytes>>,
    chunk: Bytes,
    is_over: bool,
}

impl Read for Fetched {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.chunk.is_empty() && !self.is_over {
            self.chunk = self.from.blocking_recv().unwrap_or_else(|| Err(io::Error::other(OVER)))?;
            self.is_over = self.chunk.is_empty();
        }
        let count = self.chunk.len().min(into.len());
        into[..count].copy_from_slice(&self.chunk.split_to(count));
        Ok(count)
    }
}
