"""A store driven at random against a model: dicts of parents, branches, labels and facts, and a log of their states."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, precondition, rule

from pi_sessions.context import active_entries, build_context, path_settings, path_to_root
from pi_sessions.errors import BranchError, NothingToUndoError
from pi_sessions.results import UndoResult
from pi_sessions.store import SessionStore
from tests.strategies import LABELS, NAMES, entries

Key = tuple[str, str]
State = dict[Key, Any]

NOW_MS = 1_772_359_200_000


class LoggedOperation:
    """What the model knows of an operation: its kind and the pointers and facts before and after it."""

    def __init__(self, op: int, kind: str, before: State, after: State, undoes: LoggedOperation | None = None) -> None:
        self.op = op
        self.kind = kind
        self.before = before
        self.after = after
        self.undoes = undoes
        self.undone = False
        self.renamed: tuple[str, str] | None = None

    def changed(self) -> dict[Key, tuple[Any, Any]]:
        keys = [*self.before, *(key for key in self.after if key not in self.before)]
        pairs = {key: (self.before.get(key), self.after.get(key)) for key in keys}
        return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


class SessionModel:
    """One session: which entries it sees, and its pointers and facts as one flat dict.

    A branch before the first entry has the leaf "", so that None always means "no such branch".
    """

    def __init__(self, session_id: str) -> None:
        self.id = session_id
        self.seen: set[str] = set()
        self.state: State = {("branch", "main"): "", ("fact", "branch"): "main"}
        self.log: list[LoggedOperation] = []

    @property
    def branches(self) -> dict[str, str]:
        return {name: leaf for (kind, name), leaf in self.state.items() if kind == "branch"}

    @property
    def current(self) -> str:
        return str(self.state["fact", "branch"])

    @property
    def leaf(self) -> str:
        return self.branches[self.current]

    def set(self, kind: str, name: str, value: Any) -> None:
        if value is None:
            self.state.pop((kind, name), None)
        else:
            self.state[kind, name] = value

    def standing(self) -> LoggedOperation | None:
        """Return the operation that came to stand last: when it was done, or when a redo brought it back."""

        def since(one: LoggedOperation) -> int:
            redone = [each.op for each in self.log if each.kind == "redo" and each.undoes and each.undoes.undoes is one]
            return max([one.op, *redone])

        return max((one for one in self.log if one.undoes is None and not one.undone), key=since, default=None)

    def present_name(self, name: str, op: int) -> str:
        """Return what a branch of that name at an operation is called now."""
        for each in self.log:
            if each.op > op and each.renamed is not None and each.renamed[0] == name:
                name = each.renamed[1]
        return name

    def record(self, op: int, kind: str, before: State) -> None:
        self.log.append(LoggedOperation(op, kind, before, dict(self.state)))


class StoreMachine(RuleBasedStateMachine):
    """Random work on up to a few sessions that fork from each other."""

    sessions = Bundle("sessions")

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="pi-session-machine-"))
        self.count = 0
        self.store = self.open()
        self.parents: dict[str, str] = {}
        self.models: dict[str, SessionModel] = {}

    def open(self) -> SessionStore:
        return SessionStore.open(
            str(self.folder / "s.db"),
            clock=lambda: NOW_MS,
            new_id=lambda: self.new_id("e"),
            new_session_id=lambda: self.new_id("session-"),
        )

    def new_id(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count:04}"

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.folder)

    # what is done

    @initialize(target=sessions)
    def begin(self) -> str:
        return self.create()

    def create(self) -> str:
        session = self.store.create_session(cwd="/proj/demo")
        model = self.models[session.id] = SessionModel(session.id)
        self.record_beginning(model, "new")
        return session.id

    def record_beginning(self, model: SessionModel, kind: str) -> None:
        """Undoing a beginning removes the session with all it holds, and nothing else."""
        before = {**model.state, ("fact", "deleted"): NOW_MS}
        model.record(self.store.operations(model.id)[0].id, kind, before)

    @rule(id=sessions, data=st.data(), at_branch=st.booleans())
    def append(self, id: str, data: st.DataObject, at_branch: bool) -> None:
        model = self.models[id]
        name = data.draw(st.sampled_from(sorted(model.branches))) if at_branch else model.current
        draft = data.draw(entries(sorted(model.seen)))
        leaf = model.branches[name]
        stored = self.store.append(id, draft, branch=name, expect=leaf or None)
        assert stored.parent_id == (leaf or None)
        self.parents[stored.id] = leaf
        model.seen.add(stored.id)
        model.state["branch", name] = stored.id

    @rule(id=sessions, data=st.data(), text=LABELS)
    def append_label_entry(self, id: str, data: st.DataObject, text: str | None) -> None:
        """Pi's label entries set the fact they stand for, without being an operation."""
        model = self.models[id]
        target = data.draw(st.sampled_from([*sorted(model.seen), "gone"]))
        fields = {"targetId": target} if text is None else {"targetId": target, "label": text}
        stored = self.store.append(id, {"type": "label", **fields})
        self.parents[stored.id] = model.leaf
        model.state["branch", model.current] = stored.id
        model.seen.add(stored.id)
        if target in model.seen:
            model.set("label", target, text or None)

    @rule(id=sessions, data=st.data())
    def rewind(self, id: str, data: st.DataObject) -> None:
        model = self.models[id]
        to = data.draw(st.sampled_from(["", *sorted(model.seen)]))
        before = dict(model.state)
        move = self.store.rewind(id, to or None)
        assert (move.old_leaf, move.new_leaf) == (model.leaf or None, to or None)
        model.state["branch", model.current] = to
        model.record(move.op, "rewind", before)

    @rule(target=sessions, id=sessions, data=st.data(), whole=st.booleans())
    def fork(self, id: str, data: st.DataObject, whole: bool) -> str:
        origin = self.models[id]
        at = data.draw(st.sampled_from(["", *sorted(origin.seen)]))
        session = self.store.fork(id, at=at or None, all_branches=whole)
        model = self.models[session.id] = SessionModel(session.id)
        model.seen = set(origin.seen) if whole else set(self.path(at))
        if whole:
            model.state |= {key: value for key, value in origin.state.items() if key[0] == "branch"}
            if "main" not in origin.branches:
                del model.state["branch", "main"]
            model.set("fact", "branch", origin.current)
        model.set("branch", model.current, at)
        model.set("fact", "name", origin.state.get(("fact", "name")))
        for (kind, name), value in origin.state.items():
            if kind == "label" and name in model.seen:
                model.set(kind, name, value)
        self.record_beginning(model, "fork")
        assert session.origin == id
        assert session.origin_entry == (at or None)
        return session.id

    @rule(id=sessions, name=NAMES, data=st.data(), switch=st.booleans())
    def create_branch(self, id: str, name: str, data: st.DataObject, switch: bool) -> None:
        model = self.models[id]
        at = data.draw(st.sampled_from(["", *sorted(model.seen)]))
        if name in model.branches:
            with pytest.raises(BranchError):
                self.store.create_branch(id, name, at=at or None, switch=switch)
            return
        before = dict(model.state)
        self.store.create_branch(id, name, at=at or None, switch=switch)
        model.set("branch", name, at)
        if switch:
            model.set("fact", "branch", name)
        model.record(self.store.operations(id)[0].id, "branch", before)

    @rule(id=sessions, data=st.data(), new=NAMES)
    def rename_branch(self, id: str, data: st.DataObject, new: str) -> None:
        model = self.models[id]
        old = data.draw(st.sampled_from(sorted(model.branches)))
        if new in model.branches:
            with pytest.raises(BranchError):
                self.store.rename_branch(id, old, new)
            return
        before = dict(model.state)
        self.store.rename_branch(id, old, new)
        self.rename(model, old, new)
        model.record(self.store.operations(id)[0].id, "rename", before)
        model.log[-1].renamed = (old, new)

    def rename(self, model: SessionModel, old: str, new: str) -> None:
        model.set("branch", new, model.state.pop(("branch", old)))
        if model.current == old:
            model.set("fact", "branch", new)

    @rule(id=sessions, data=st.data())
    def delete_branch(self, id: str, data: st.DataObject) -> None:
        model = self.models[id]
        name = data.draw(st.sampled_from(sorted(model.branches)))
        if name == model.current:
            with pytest.raises(BranchError):
                self.store.delete_branch(id, name)
            return
        before = dict(model.state)
        self.store.delete_branch(id, name)
        model.set("branch", name, None)
        model.record(self.store.operations(id)[0].id, "branch", before)

    @rule(id=sessions, data=st.data())
    def switch(self, id: str, data: st.DataObject) -> None:
        model = self.models[id]
        name = data.draw(st.sampled_from(sorted(model.branches)))
        before = dict(model.state)
        move = self.store.switch(id, name)
        model.set("fact", "branch", name)
        model.record(move.op, "switch", before)

    @precondition(lambda self: any(model.seen for model in self.models.values()))
    @rule(data=st.data(), text=LABELS)
    def label(self, data: st.DataObject, text: str | None) -> None:
        id = data.draw(st.sampled_from([one.id for one in self.models.values() if one.seen]))
        model = self.models[id]
        target = data.draw(st.sampled_from(sorted(model.seen)))
        before = dict(model.state)
        op = self.store.set_label(id, target, text)
        model.set("label", target, text or None)
        model.record(op, "label", before)

    @rule(id=sessions, fact=st.sampled_from(("name", "archived", "pinned", "deleted")), value=st.booleans())
    def set_fact(self, id: str, fact: str, value: bool) -> None:
        model = self.models[id]
        before = dict(model.state)
        if fact == "name":
            op = self.store.set_name(id, "A name" if value else None)
            model.set("fact", fact, "A name" if value else None)
        elif fact == "archived":
            op = self.store.set_archived(id, value)
            model.set("fact", fact, value or None)
        elif fact == "pinned":
            op = self.store.set_pinned(id, value)
            model.set("fact", fact, value or None)
        else:
            op = self.store.delete_session(id)
            model.set("fact", fact, NOW_MS)
        model.record(op, fact, before)

    # what is taken back

    @rule(id=sessions)
    def undo(self, id: str) -> None:
        model = self.models[id]
        standing = model.standing()
        if standing is None:
            with pytest.raises(NothingToUndoError):
                self.store.undo(id)
            return
        self.take_back(model, standing, self.store.undo(id))

    @rule(id=sessions, data=st.data())
    def undo_any(self, id: str, data: st.DataObject) -> None:
        """Undo an operation by number; a redo stands for the operation it brought back."""
        model = self.models[id]
        named = data.draw(st.sampled_from(model.log))
        logged = named
        while logged.kind == "redo":
            logged = self.undone_by(self.undone_by(logged))
        if logged.undone:
            with pytest.raises(NothingToUndoError):
                self.store.undo(id, op=named.op)
            return
        self.take_back(model, logged, self.store.undo(id, op=named.op))

    @rule(id=sessions, data=st.data())
    def redo_any(self, id: str, data: st.DataObject) -> None:
        """Redo an operation by number: take back the undo that took it back."""
        model = self.models[id]
        logged = data.draw(st.sampled_from([one for one in model.log if one.undoes is None]))
        if not logged.undone:
            with pytest.raises(NothingToUndoError):
                self.store.redo(id, op=logged.op)
            return
        undo = [one for one in model.log if one.undoes is logged][-1]
        self.take_back(model, undo, self.store.redo(id, op=logged.op))

    @staticmethod
    def undone_by(logged: LoggedOperation) -> LoggedOperation:
        assert logged.undoes is not None
        return logged.undoes

    @rule(id=sessions)
    def redo(self, id: str) -> None:
        model = self.models[id]
        newest = max((one.op for one in model.log if one.undoes is None), default=0)
        undos = [one for one in model.log if one.kind == "undo" and not one.undone and one.op > newest]
        if not undos:
            with pytest.raises(NothingToUndoError):
                self.store.redo(id)
            return
        self.take_back(model, undos[-1], self.store.redo(id))

    @rule(id=sessions)
    def undo_and_redo(self, id: str) -> None:
        """Redo right after undo restores every pointer and fact exactly."""
        model = self.models[id]
        standing = model.standing()
        if standing is not None:
            before = dict(model.state)
            self.take_back(model, standing, self.store.undo(id))
            self.take_back(model, model.log[-1], self.store.redo(id))
            assert model.state == before

    def take_back(self, model: SessionModel, logged: LoggedOperation, result: UndoResult) -> None:
        """Restore in the model what an operation changed, and check that what was added since is kept in sight."""
        assert result.undone.id == logged.op
        before = dict(model.state)
        source = logged
        while source.undoes is not None:
            source = source.undoes
        renamed = self.take_back_rename(model, logged) if source.kind == "rename" else None
        if source.kind != "rename":
            self.restore(model, logged, result)
        kind = "undo" if logged.kind != "undo" else "redo"
        done = LoggedOperation(result.op, kind, before, dict(model.state), logged)
        done.renamed = renamed
        logged.undone = True
        if kind == "redo" and logged.undoes is not None:
            logged.undoes.undone = False
        model.log.append(done)

    def take_back_rename(self, model: SessionModel, logged: LoggedOperation) -> tuple[str, str] | None:
        if logged.renamed is None:
            return None
        old, new = logged.renamed
        if new not in model.branches or old in model.branches:
            return None
        self.rename(model, new, old)
        return new, old

    def restore(self, model: SessionModel, logged: LoggedOperation, result: UndoResult) -> None:
        moved: dict[str, tuple[str, str]] = {}
        changed = logged.changed()
        order = {"label": 0, "fact": 1, "branch": 2}
        by_age = sorted(
            changed.items(), key=lambda item: (item[0][0] != "branch" or item[1][0] is None, order[item[0][0]])
        )
        for (kind, name), (old, new) in by_age:
            if kind == "branch":
                self.restore_branch(model, model.present_name(name, logged.op), old, new, moved)
            elif (kind, name) == ("fact", "branch"):
                old, new = (model.present_name(each, logged.op) for each in (old, new))
                if model.current in (old, new) and old in model.branches:
                    model.set("fact", "branch", old)
            elif model.state.get((kind, name)) == new:
                model.set(kind, name, old)
        for kept in result.kept:
            assert kept.name not in model.branches
            assert kept.leaf in {now for now, _old in moved.values()}
            model.set("branch", kept.name, kept.leaf)
        for now, _old in moved.values():
            assert any(now in self.path(leaf) for leaf in model.branches.values()), (
                "what was added since is out of sight"
            )

    def restore_branch(
        self, model: SessionModel, name: str, old: str | None, new: str | None, moved: dict[str, tuple[str, str]]
    ) -> None:
        """Point a branch back; one that was deleted since stays deleted, the current one is never taken away."""
        now = model.state.get(("branch", name))
        if now is None and new is not None:
            return
        if now and now not in (old, new):
            moved[name] = (now, old or "")
        if old is not None or model.current != name:
            model.set("branch", name, old)

    # what must hold

    def path(self, leaf: str) -> list[str]:
        found = []
        while leaf:
            found.append(leaf)
            leaf = self.parents[leaf]
        return found[::-1]

    @invariant()
    def pointers_and_facts_agree(self) -> None:
        for model in self.models.values():
            session = self.store.session(model.id)
            branches = {one.name: one.leaf or "" for one in self.store.branches(model.id)}
            assert branches == model.branches
            assert session.branch == model.current
            assert [one.name for one in self.store.branches(model.id) if one.current] == [model.current]
            assert session.leaf == self.store.leaf(model.id) == (model.leaf or None)
            stored = self.store.entries(model.id)
            assert session.message_count == sum(one.type == "message" for one in stored)
            questions = {" ".join((one.message or {})["content"].split()) for one in stored if one.role == "user"} - {
                ""
            }
            assert session.first_message in questions or (session.first_message is None and not questions)
            facts = {name: value for (kind, name), value in model.state.items() if kind == "fact"}
            assert session.name == facts.get("name")
            assert session.archived == bool(facts.get("archived"))
            assert session.pinned == bool(facts.get("pinned"))
            assert session.deleted == ("deleted" in facts)
            labels = {name: text for (kind, name), text in model.state.items() if kind == "label"}
            assert {id: label.text for id, label in self.store.labels(model.id).items()} == labels

    @invariant()
    def no_entry_is_lost(self) -> None:
        for model in self.models.values():
            stored = self.store.entries(model.id)
            assert {one.id: one.parent_id or "" for one in stored} == {id: self.parents[id] for id in model.seen}
            assert len(stored) == len(model.seen)
            inner = {self.parents[id] for id in model.seen} | set(model.branches.values())
            assert set(self.store.tips(model.id)) == model.seen - inner

    @invariant()
    def paths_and_contexts_agree(self) -> None:
        for model in self.models.values():
            stored = {one.id: one for one in self.store.entries(model.id)}
            for leaf in {*model.branches.values()}:
                path = self.store.path(model.id, at=leaf or None)
                assert [one.id for one in path] == self.path(leaf)
                whole = path_to_root(stored, leaf or None)
                context = self.store.context(model.id, at=leaf or None)
                wanted = build_context(active_entries(whole), *path_settings(whole))
                assert context.messages == wanted.messages
                assert [one.id for one in context.entries] == [one.id for one in wanted.entries]
                assert (context.model, context.thinking_level) == (wanted.model, wanted.thinking_level)

    @invariant()
    def children_agree(self) -> None:
        for model in self.models.values():
            below: dict[str, set[str]] = {}
            for id in model.seen:
                below.setdefault(self.parents[id], set()).add(id)
            for parent in ["", *sorted(model.seen)[-4:]]:
                assert set(self.store.children(model.id, parent or None)) == below.get(parent, set())

    @invariant()
    def the_store_is_sound(self) -> None:
        assert self.store.verify() == []

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = self.open()


StoreMachine.TestCase.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestRandomWork = StoreMachine.TestCase


class LongStoreMachine(StoreMachine):
    """The same for longer."""


LongStoreMachine.TestCase.settings = settings(
    max_examples=400, stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck)
)
TestLongRandomWork = pytest.mark.soak(LongStoreMachine.TestCase)
