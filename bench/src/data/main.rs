//! `bench-data`: images per second of Paddle's data loader from a volume whose blocks are
//! at the end of a slow link, cold and cached, beside plain local disk and s3fs; and our
//! sync and warmup beside those of plain JuiceFS. Figures of one run compare with each
//! other; those of two runs, or of two machines, do not.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod awake;
mod link;
mod reader;
mod servers;
mod status;

use std::path::{Path, PathBuf};
use std::time::Instant;

use bench::median;
use cache_api::{Sampler, Sync, Task, Warmup};
use clap::Parser;

use awake::Awake;
use reader::{Reader, Reading};
use servers::Servers;

/// Measures what caching gains.
#[derive(Debug, Parser)]
struct Args {
    /// Where `make examples` installs
    #[arg(long, value_name = "DIR")]
    installed: PathBuf,
    /// How many images there are, of about 100 KB each
    #[arg(long, default_value = "500")]
    images: usize,
    /// How many copies of them are synced and warmed up, which is soon done with one
    #[arg(long, default_value = "6")]
    copies: usize,
    /// How often everything is measured; the median counts
    #[arg(long, default_value = "5")]
    runs: usize,
    /// The bandwidth of the link in Mbit/s
    #[arg(long, default_value = "50")]
    link: u64,
    /// How many files the volume has while nothing changes
    #[arg(long, default_value = "100000")]
    files: usize,
    /// Let idle cores sleep, as they do where nothing trains
    #[arg(long)]
    cores_sleep: bool,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let dir = tempfile::tempdir()?;
    let local = dir.path().join("local");
    let python = args.installed.join("paddle-3.3.1/bin/python");
    let reader = Reader::start(&python, &local, args.images).await?;
    println!("{} images, {} runs", args.images, args.runs);
    let _awake = keep_awake(args.cores_sleep);
    let servers = Servers::start(&args.installed, dir.path()).await?;
    let from = format!("file://{}/", local.display());
    let copies = (0..args.copies).map(|copy| format!("copies/{copy}"));
    for folder in copies.chain([IMAGES.to_owned()]) {
        let to = servers.source(&folder);
        servers.juicefs(&["sync", "--no-https", &from, &to]).await?;
    }
    let mut bench = Bench {
        args: &args,
        servers: &servers,
        reader,
        local: &local,
    };
    tokio::select! {
        measured = bench.measure() => measured,
        // Nothing is left mounted.
        _ = tokio::signal::ctrl_c() => anyhow::bail!("interrupted"),
    }
}

/// Keeps cores awake, where that is wanted and can be; says which it is.
fn keep_awake(cores_sleep: bool) -> Option<Awake> {
    let awake = match cores_sleep {
        true => Err("as asked".to_owned()),
        false => Awake::ask().map_err(|error| error.to_string()),
    };
    match &awake {
        Ok(_) => println!("idle cores stay awake, as beside a training"),
        Err(why) => println!("idle cores may sleep ({why}): each file that is opened wakes one"),
    }
    awake.ok()
}

/// The folder of those that are read, in the source as in the volume.
const IMAGES: &str = "images";

struct Bench<'a> {
    args: &'a Args,
    servers: &'a Servers,
    reader: Reader,
    local: &'a Path,
}

impl Bench<'_> {
    async fn measure(&mut self) -> anyhow::Result<()> {
        self.compare_syncs().await?;
        self.sync("copies", "copies").await?;
        self.compare_warmups().await?;
        // Blocks of files that are gone would stay cached.
        self.evict().await?;
        self.remove("copies").await?;
        self.sync(IMAGES, IMAGES).await?;
        for readers in [1, 2] {
            self.compare_reading(readers).await?;
        }
        self.compare_raw_reading().await?;
        let Bench { args, servers, .. } = self;
        status::compare(servers, args.images, args.files, args.runs).await
    }

    async fn sync(&self, folder: &str, destination: &str) -> anyhow::Result<()> {
        let sync = Sync {
            source: self.servers.source(folder),
            destination: destination.to_owned(),
            no_https: true,
            ..Sync::default()
        };
        self.servers.operate(Task::Sync(sync)).await
    }

    /// Copies from S3 into the volume.
    async fn compare_syncs(&self) -> anyhow::Result<()> {
        let Bench { args, servers, .. } = self;
        let source = servers.source("copies");
        let (mut plain, mut ours) = (Vec::new(), Vec::new());
        for run in 0..args.runs {
            // Neither is always the first.
            for is_ours in [run % 2 == 0, run % 2 == 1] {
                let begin = Instant::now();
                match is_ours {
                    true => self.sync("copies", "ours").await?,
                    false => {
                        let to = "jfs://volume/plain/";
                        servers
                            .juicefs(&["sync", "--no-https", &source, to])
                            .await?;
                    }
                }
                let took = begin.elapsed().as_secs_f64();
                if is_ours { &mut ours } else { &mut plain }.push(took);
            }
            self.remove("plain").await?;
            self.remove("ours").await?;
        }
        let what = format!("sync of {} files from S3", self.copied());
        Self::report(&what, median(plain), median(ours));
        Ok(())
    }

    /// How many files the copies have.
    fn copied(&self) -> usize {
        self.args.copies * self.args.images
    }

    async fn remove(&self, folder: &str) -> anyhow::Result<()> {
        let path = self.servers.mount().join(folder);
        let path = path.display().to_string();
        self.servers.juicefs(&["rmr", "--skip-trash", &path]).await
    }

    async fn evict(&self) -> anyhow::Result<()> {
        let mount = self.servers.mount().display().to_string();
        self.servers.juicefs(&["warmup", "--evict", &mount]).await
    }

    async fn warm(&self) -> anyhow::Result<()> {
        let sampler = Sampler {
            ranks_per_partition: 1,
            replicas: 1,
            batch_size: 1,
            ..Sampler::default()
        };
        let warmup = Warmup {
            sampler,
            ..Warmup::default()
        };
        self.servers.operate(Task::Warmup(warmup)).await
    }

    async fn compare_warmups(&self) -> anyhow::Result<()> {
        let mount = self.servers.mount().display().to_string();
        let (mut plain, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..self.args.runs {
            self.evict().await?;
            let begin = Instant::now();
            self.servers.juicefs(&["warmup", &mount]).await?;
            plain.push(begin.elapsed().as_secs_f64());
            self.evict().await?;
            let begin = Instant::now();
            self.warm().await?;
            ours.push(begin.elapsed().as_secs_f64());
        }
        let what = format!("warmup of {} files", self.copied());
        Self::report(&what, median(plain), median(ours));
        Ok(())
    }

    fn report(what: &str, plain: f64, ours: f64) {
        println!("## {what}");
        println!("juicefs alone    {plain:8.2} s");
        println!("runtime server   {ours:8.2} s");
        println!("rate against it  {:8.2}", plain / ours);
    }

    /// The data loader of a training, which decodes.
    async fn compare_reading(&mut self, readers: usize) -> anyhow::Result<()> {
        let link = self.args.link;
        println!("## data loader with {readers} reader(s), {link} Mbit/s: images/s");
        let (mount, disk) = (self.servers.mount(), self.local);
        let limit = self.servers.link.clone();
        let mut local = Epochs::default();
        let (mut cold, mut warm) = (Epochs::default(), Epochs::default());
        let mut mount_cpu = 0.0;
        for run in 0..self.args.runs {
            self.evict().await?;
            limit.limit(Some(link));
            self.read(&mount, readers, &mut cold).await?;
            limit.limit(None);
            self.warm().await?;
            limit.limit(Some(link));
            // Neither is always the first.
            for is_local in [run % 2 == 0, run % 2 == 1] {
                match is_local {
                    true => self.read(disk, readers, &mut local).await?,
                    false => {
                        let before = self.servers.mount_cpu()?;
                        self.read(&mount, readers, &mut warm).await?;
                        mount_cpu += self.servers.mount_cpu()? - before;
                    }
                }
            }
            limit.limit(None);
        }
        let table = Table::of(self.args.images, &local);
        table.show("juicefs, cold", &cold);
        table.show("juicefs, warm", &warm);
        let images = (EPOCHS * self.args.runs * self.args.images) as f64;
        let (reader, mount) = (
            1e3 * readers as f64 / table.local[0],
            1e3 * mount_cpu / images,
        );
        println!("ms per image: {reader:.2} of a reader, {mount:.2} of CPU of JuiceFS");
        if !self.args.installed.join("s3fs/bin/s3fs").exists() {
            println!("s3fs             not installed");
            return Ok(());
        }
        let (mut cold, mut warm) = (Epochs::default(), Epochs::default());
        for _ in 0..self.args.runs {
            let mounted = self.servers.s3fs().await?;
            limit.limit(Some(link));
            self.read(&mounted.0, readers, &mut cold).await?;
            self.read(&mounted.0, readers, &mut warm).await?;
            limit.limit(None);
        }
        table.show("s3fs, cold", &cold);
        table.show("s3fs, warm", &warm);
        Ok(())
    }

    /// Without decoding, which hides how the files are read.
    async fn compare_raw_reading(&mut self) -> anyhow::Result<()> {
        println!("## raw reading with 1 reader: files/s");
        let (mount, disk) = (self.servers.mount(), self.local);
        self.warm().await?;
        let (mut warm, mut local) = (Epochs::default(), Epochs::default());
        for _ in 0..self.args.runs {
            self.read_raw(&mount, &mut warm).await?;
            self.read_raw(disk, &mut local).await?;
        }
        Table::of(self.args.images, &local).show("juicefs, warm", &warm);
        Ok(())
    }

    async fn read(&mut self, dir: &Path, readers: usize, to: &mut Epochs) -> anyhow::Result<()> {
        let reading = Reading {
            dir,
            readers,
            decodes: true,
            forgets: &[],
        };
        self.epochs(reading, to).await
    }

    async fn read_raw(&mut self, dir: &Path, to: &mut Epochs) -> anyhow::Result<()> {
        let reading = Reading {
            dir,
            readers: 1,
            decodes: false,
            forgets: &[],
        };
        self.epochs(reading, to).await
    }

    /// Reads everything again and again. The kernel has nothing of it in memory before, whatever
    /// is measured: not the files, and not what JuiceFS or s3fs cached of them on disk.
    async fn epochs(&mut self, reading: Reading<'_>, to: &mut Epochs) -> anyhow::Result<()> {
        let mut forgets = self.servers.on_disk();
        forgets.push(reading.dir.to_owned());
        let first = Reading {
            forgets: &forgets,
            ..reading
        };
        // A virtual machine gives memory back to its host while it waits for the link, and is slow
        // until it has it again, whatever is read.
        let warms_up = Reading {
            dir: self.local,
            decodes: true,
            ..reading
        };
        self.reader.read(warms_up).await?;
        let mut times = [0.0; EPOCHS];
        let all = [first].into_iter().chain(std::iter::repeat(reading));
        for (time, reading) in times.iter_mut().zip(all) {
            *time = self.reader.read(reading).await?;
        }
        to.0.push(times);
        Ok(())
    }
}

/// How many epochs are read: the first fills the memory of the kernel, the second asks once
/// more for what reading made it forget of each file, and those after it are all alike.
const EPOCHS: usize = 3;

/// What is told of them: its name, how many epochs were before it, and how many it has.
const COLUMNS: [(&str, usize, usize); 4] = [
    ("all epochs", 0, EPOCHS),
    ("first", 0, 1),
    ("second", 1, 1),
    ("third", 2, 1),
];

/// How long the epochs of a training take, in each run.
#[derive(Default)]
struct Epochs(Vec<[f64; EPOCHS]>);

impl Epochs {
    /// Images per second, in each column.
    fn rates(&self, images: usize) -> [f64; COLUMNS.len()] {
        COLUMNS.map(|(_, before, count)| {
            let times = self.0.iter();
            let times = times.map(|run| run.iter().skip(before).take(count).sum());
            (count * images) as f64 / median(times.collect())
        })
    }
}

/// Rates beside those of the local disk.
struct Table {
    images: usize,
    local: [f64; COLUMNS.len()],
}

impl Table {
    fn of(images: usize, local: &Epochs) -> Table {
        let table = Table {
            images,
            local: local.rates(images),
        };
        print!("{:16}", "");
        for (name, ..) in COLUMNS {
            print!(" {name:>12} {:>10}", "of local");
        }
        println!();
        table.show("local disk", local);
        table
    }

    fn show(&self, name: &str, epochs: &Epochs) {
        print!("{name:16}");
        for (rate, local) in epochs.rates(self.images).into_iter().zip(self.local) {
            print!(" {rate:12.1} {:10.2}", rate / local);
        }
        println!();
    }
}
