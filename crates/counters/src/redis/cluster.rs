//! A worker's way to a Cluster: a line to each master, and what keeps them where the slots are.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Action, Plan, PlannedOp};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::backoff::Backoff;
use super::batch::Batch;
use super::call::Kind;
use super::connection::Stream;
use super::error::StoreError;
use super::far::Far;
use super::line::Line;
use super::options::Address;
use super::resp;
use super::slots::{Node, Redirect, SlotMap};
use super::store::Shared;
use super::wire::Wire;
use crate::Outcomes;
use crate::clock::Deadline;

/// The map is read anew so often even if nothing speaks against it.
const MAP_AGE: Duration = Duration::from_secs(15);
/// Between two readings while the map is in doubt.
const LONGEST_REST: Duration = Duration::from_millis(250);
/// While a slot is on its way from node to node.
const AGAIN_AFTER: Duration = Duration::from_millis(1);

/// What the lines of one Cluster report.
#[derive(Debug, Default)]
pub(super) struct Events {
    strays: RefCell<Vec<(Node, Rc<Batch>, Redirect)>>,
    stray: Notify,
    doubted: Notify,
    /// Who knows a node that the map does not, and is to be asked for its own at once.
    informed: RefCell<Option<Node>>,
    hurried: Notify,
}

impl Events {
    /// This node does not answer this batch.
    pub(super) fn stray(&self, node: Node, batch: Rc<Batch>, redirect: Redirect) {
        self.strays.borrow_mut().push((node, batch, redirect));
        self.stray.notify_one();
    }

    /// Something speaks against the map.
    pub(super) fn doubt(&self) {
        self.doubted.notify_one();
    }

    /// The map lacks what this node knows, and something waits for that.
    fn hurry(&self, informed: Node) {
        *self.informed.borrow_mut() = Some(informed);
        self.hurried.notify_one();
    }
}

/// The lines to a Cluster's masters. Stays on its thread.
#[derive(Debug)]
pub(super) struct Cluster {
    pub(super) shared: Arc<Shared>,
    map: RefCell<SlotMap>,
    lines: RefCell<HashMap<Node, Rc<Wire>>>,
    /// The same, by a node's place in the map.
    owners: RefCell<Vec<Option<Rc<Wire>>>>,
    events: Rc<Events>,
    pub(super) far: Far,
    /// Why the map could not be read.
    problem: RefCell<Option<Arc<str>>>,
    /// True once it was read, or could not be.
    is_tried: Cell<bool>,
    pub(super) tried: Notify,
    pub(super) closing: Notify,
}

impl Cluster {
    pub(super) fn spawn(shared: Arc<Shared>) -> Rc<Self> {
        let cluster = Rc::new(Self {
            shared,
            map: RefCell::default(),
            lines: RefCell::default(),
            owners: RefCell::default(),
            events: Rc::default(),
            far: Far::default(),
            problem: RefCell::default(),
            is_tried: Cell::new(false),
            tried: Notify::new(),
            closing: Notify::new(),
        });
        tokio::task::spawn_local(Rc::clone(&cluster).run());
        cluster
    }

    async fn run(self: Rc<Self>) {
        tokio::select! {
            biased;
            () = self.closing.notified() => {}
            () = self.redirect() => {}
            () = self.follow() => {}
        }
        self.owners.borrow_mut().clear();
        for (_, wire) in self.lines.borrow_mut().drain() {
            wire.closing.notify_one();
        }
    }

    /// True if every master that is known has a connection.
    pub(super) fn is_up(&self) -> bool {
        let lines = self.lines.borrow();
        !lines.is_empty() && lines.values().all(|wire| wire.line.borrow().is_up())
    }

    /// True if nothing is under way to any master.
    pub(super) fn is_idle(&self) -> bool {
        self.lines.borrow().values().all(|wire| wire.line.borrow().is_idle())
    }

    /// True if some master would be sent a call.
    pub(super) fn can_be_asked(&self) -> bool {
        self.lines.borrow().values().any(|wire| wire.line.borrow().can_be_asked())
    }

    /// Waits until every master has a connection.
    pub(super) async fn connected(&self) {
        loop {
            let lines: Vec<_> = self.lines.borrow().values().map(Rc::clone).collect();
            for wire in &lines {
                wire.attempt(Line::is_up).await;
            }
            if !lines.is_empty() && lines.len() == self.lines.borrow().len() {
                return;
            }
            self.tried.notified().await;
        }
    }

    /// Asks the node of a slot for what of a plan lies there, until that time if one is given.
    pub(super) async fn ask(
        &self,
        plan: &Plan<'_>,
        kind: Kind,
        slot: u16,
        due: Option<Deadline>,
        part: impl Fn(usize, &PlannedOp<'_>) -> Option<Action>,
    ) -> Result<Outcomes, StoreError> {
        let known = self.wire(slot);
        let (wire, due) = if let Some(wire) = known {
            (wire, due)
        } else {
            let due = due.unwrap_or_else(|| Deadline::after(self.shared.patience));
            self.read_once(due).await;
            (self.known(slot)?, Some(due))
        };
        wire.ask(plan, kind, Some(slot), due, part).await
    }

    /// Tells the node of a slot what of a plan is to be done there, without waiting for it.
    pub(super) fn tell(
        &self,
        plan: &Plan<'_>,
        slot: u16,
        part: impl Fn(usize, &PlannedOp<'_>) -> Option<Action>,
    ) {
        if let Some(wire) = self.wire(slot) {
            wire.tell(plan, slot, part);
        }
    }

    /// A node that has just started knows nothing against its store yet.
    async fn read_once(&self, due: Deadline) {
        let told = self.tried.notified();
        if !self.is_tried.get() {
            let _ = timeout(due.left(), told).await;
        }
    }

    fn nobody(&self, slot: u16) -> StoreError {
        self.events.doubt();
        let why = match self.problem.borrow().as_ref() {
            Some(why) => Arc::clone(why),
            None if self.is_tried.get() => format!("no node serves slot {slot}").into(),
            None => Arc::from("the Cluster's slots are not known yet"),
        };
        StoreError::Disconnected { why }
    }

    /// The wire to the node of a slot, if that is known.
    pub(super) fn known(&self, slot: u16) -> Result<Rc<Wire>, StoreError> {
        self.wire(slot).ok_or_else(|| self.nobody(slot))
    }

    #[inline]
    pub(super) fn wire(&self, slot: u16) -> Option<Rc<Wire>> {
        let map = self.map.borrow();
        let owner = map.owner(slot)?;
        let owners = &mut *self.owners.borrow_mut();
        if owners.len() <= owner {
            owners.resize_with(map.nodes().len(), || None);
        }
        let wire = owners.get_mut(owner)?;
        Some(Rc::clone(wire.get_or_insert_with(|| self.line_to(&map.nodes()[owner]))))
    }

    fn line_to(&self, node: &Node) -> Rc<Wire> {
        let mut lines = self.lines.borrow_mut();
        let new = || Wire::spawn(&self.shared, Some((node.clone(), Rc::clone(&self.events))));
        Rc::clone(lines.entry(node.clone()).or_insert_with(new))
    }

    /// Sends on what nodes did not answer.
    async fn redirect(self: &Rc<Self>) {
        loop {
            self.events.stray.notified().await;
            let strays = std::mem::take(&mut *self.events.strays.borrow_mut());
            for (node, batch, redirect) in strays {
                if self.lacks_name(&redirect) {
                    let named = Rc::clone(self).redirect_by_name(node, batch, redirect);
                    tokio::task::spawn_local(named);
                } else {
                    self.follow_to(&node, batch, redirect);
                }
            }
        }
    }

    /// True if this leads to a node that no map has shown yet, such as a replica that has just come
    /// and takes over: its certificate seldom carries what its peers call it.
    fn lacks_name(&self, redirect: &Redirect) -> bool {
        let (Redirect::Moved(_, to) | Redirect::Ask(to)) = redirect else { return false };
        let is_known = || self.map.borrow().knows(to) || self.lines.borrow().contains_key(to);
        self.shared.options.tls.is_some() && !is_known()
    }

    /// Sends on once the node's map says by which name.
    async fn redirect_by_name(self: Rc<Self>, node: Node, batch: Rc<Batch>, redirect: Redirect) {
        // The reading that ends next may have begun before the node knew.
        for _ in 0..2 {
            let Some(due) = batch.body().first_deadline().filter(|_| self.lacks_name(&redirect))
            else {
                break;
            };
            let read = self.tried.notified();
            self.events.hurry(node.clone());
            let _ = timeout(due.left(), read).await;
        }
        self.follow_to(&node, batch, redirect);
    }

    fn follow_to(&self, node: &Node, batch: Rc<Batch>, redirect: Redirect) {
        let redirect = redirect.known_by(&self.map.borrow());
        match redirect {
            Redirect::Moved(slot, to) => {
                self.map.borrow_mut().moved(slot, to.clone());
                self.events.doubt();
                self.send_on(&to, batch, false, Duration::ZERO);
            }
            Redirect::Ask(to) => self.send_on(&to, batch, true, Duration::ZERO),
            Redirect::Again => self.send_on(node, batch, false, AGAIN_AFTER),
        }
    }

    fn send_on(&self, to: &Node, batch: Rc<Batch>, is_asking: bool, pause: Duration) {
        let wire = self.line_to(to);
        tokio::task::spawn_local(async move {
            if !pause.is_zero() {
                sleep(pause).await;
            }
            wire.line.borrow_mut().adopt(Rc::clone(&batch), is_asking);
            // A line that is still to be connected looks at no deadline.
            while !wire.line.borrow().is_up()
                && batch.is_waiting()
                && let Some(next) = batch.expire()
            {
                sleep(next.left()).await;
            }
        });
    }

    /// Keeps the map: read at the start, when something speaks against it, and now and then.
    async fn follow(&self) {
        let mut backoff = Backoff::new();
        loop {
            let read = self.read_map().await;
            self.is_tried.set(true);
            let is_sound = match read {
                Ok(map) => {
                    *self.problem.borrow_mut() = None;
                    self.take_over(map);
                    self.lines.borrow().values().all(|wire| wire.line.borrow().is_well())
                }
                Err(why) => {
                    self.shared.health.failed(&why);
                    *self.problem.borrow_mut() = Some(why);
                    false
                }
            };
            self.tried.notify_waiters();
            tokio::select! {
                () = self.events.hurried.notified() => {}
                () = self.rest(&mut backoff, is_sound) => {}
            }
        }
    }

    /// Until the map is to be read anew.
    async fn rest(&self, backoff: &mut Backoff, is_sound: bool) {
        if is_sound && timeout(MAP_AGE, self.events.doubted.notified()).await.is_err() {
            backoff.reset();
        } else {
            sleep(backoff.wait().min(LONGEST_REST)).await;
        }
    }

    fn take_over(&self, map: SlotMap) {
        let mut lines = self.lines.borrow_mut();
        lines.retain(|node, wire| {
            let is_master = map.nodes().contains(node);
            if !is_master && wire.line.borrow().is_idle() {
                wire.closing.notify_one();
                return false;
            }
            true
        });
        drop(lines);
        for node in map.nodes() {
            self.line_to(node);
        }
        self.owners.borrow_mut().clear();
        *self.map.borrow_mut() = map;
    }

    /// Asks one node after another, known ones first, until one tells its map.
    async fn read_map(&self) -> Result<SlotMap, Arc<str>> {
        let Address::Cluster(seeds) = &self.shared.options.address else {
            return Err(Arc::from("no Cluster"));
        };
        let mut nodes: Vec<_> = self.events.informed.take().into_iter().collect();
        nodes.extend(self.nodes_up());
        nodes.extend(seeds.iter().map(|(host, port)| Node { host: host.clone(), port: *port }));
        let mut said = Err(Arc::from("no node of the Cluster is known"));
        for node in nodes {
            said = self.map_of(&node).await;
            if said.is_ok() {
                break;
            }
        }
        said
    }

    fn nodes_up(&self) -> Vec<Node> {
        let lines = self.lines.borrow();
        let up = lines.iter().filter(|(_, wire)| wire.line.borrow().is_up());
        up.map(|(node, _)| node.clone()).collect()
    }

    async fn map_of(&self, node: &Node) -> Result<SlotMap, Arc<str>> {
        let options = &self.shared.options;
        let address = Address::Tcp(node.host.clone(), node.port);
        let (mut stream, _) = Stream::open(options, &address).await?;
        let mut request = Vec::new();
        resp::append_command(&mut request, &[b"CLUSTER", b"SLOTS"]);
        let by_name = options.tls.is_some();
        let told = stream.ask(&request, |reply| match SlotMap::read(reply, node, by_name) {
            Some(map) => Ok(Some(map)),
            None => Err(match reply {
                resp::Reply::Error(words) => String::from_utf8_lossy(words).into_owned(),
                _ => "it serves no slots, or is no Cluster's node".to_owned(),
            }),
        });
        match timeout(options.connect_timeout, told).await {
            Ok(Ok(map)) => Ok(map),
            Ok(Err(why)) => Err(format!("{node}: CLUSTER SLOTS: {why}").into()),
            Err(_) => Err(format!("{node}: no answer to CLUSTER SLOTS").into()),
        }
    }
}
