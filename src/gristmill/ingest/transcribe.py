"""Sound and video: their content is the transcript of an endpoint (transcriber.py).

    no endpoint in the settings     the item fails with `no_transcription`, and is tried again once a worker starts with one
    transcribed before              the transcript is the stored content of these bytes: nothing is sent, and nothing paid
    else                            the file is sent; one fenced transaction stores the transcript as the content of these bytes,
                                    and from there on it is read like any content that was read before

A failure after that (of the embedder, a kill) finds the transcript stored. Killed while the endpoint works: the next attempt
sends the file again. No slot is used while the endpoint works, only a few files are sent at once, and bases take turns; equal
files in one process wait for each other.
"""

import asyncio
import logging
import tempfile
from dataclasses import replace
from pathlib import Path
from weakref import WeakValueDictionary

from gristmill import catalog, contents, faults, jobs
from gristmill.contents import NewContentPart, NewVersion
from gristmill.db import Database
from gristmill.errors import NoText, Unsupported
from gristmill.ingest.findings import language_code_of
from gristmill.ingest.inspect_original import InspectedOriginal
from gristmill.ingest.task import IndexTask, VersionContent
from gristmill.ingest.transcriber import Transcriber, Transcript
from gristmill.jobs import Activity
from gristmill.readers.media_format import is_media
from gristmill.readers.timed_text import time_code
from gristmill.stage_gate import StageGate

log = logging.getLogger(__name__)

NO_TRANSCRIPTION = "no_transcription"  # the code of items that wait for an endpoint
_NO_READER = "media"  # of sound and video, if there is no endpoint


class TranscriptReader:
    """Makes the transcripts of sound and video."""

    def __init__(
        self, db: Database, transcriber: Transcriber | None, scratch: Path | None, gate: StageGate
    ) -> None:
        self._db, self._transcriber, self._scratch, self._gate = db, transcriber, scratch, gate
        self._locks: WeakValueDictionary[bytes, asyncio.Lock] = WeakValueDictionary()

    @property
    def _reader(self) -> str:
        return _NO_READER if self._transcriber is None else self._transcriber.identity

    def choose_reader(self, inspected: InspectedOriginal) -> InspectedOriginal:
        """Take over sound and video."""
        if not is_media(inspected.head, inspected.original.name):
            return inspected
        return replace(inspected, reader=self._reader, format_name="")

    async def ensure_transcript(
        self, task: IndexTask, content: VersionContent, inspected: InspectedOriginal
    ) -> bool:
        """Make the transcript of the document and store it, unless it is no sound or video, or has one. False if the version is
        no longer wanted."""
        if inspected.reader != self._reader:
            return True
        if self._transcriber is None:
            raise Unsupported(
                "It is sound or video, and nothing is configured that transcribes it. Set transcription_url and "
                "transcription_model, restart, and retry the item.",
                code="no_transcription",
            )
        lock = self._locks.setdefault(content.digest, asyncio.Lock())
        with task.job.during(Activity.AWAY):
            async with lock:
                async with self._db.connection() as tx:
                    if await contents.find_complete_content(tx, content.digest) is not None:
                        return True
                async with self._gate.place(jobs.requester(task.job)):
                    transcript = await self._transcribe(self._transcriber, inspected)
                await faults.point("transcribe.answered")
                self._log_cost(task, transcript)
                return await self._store(task, content, transcript)

    async def _transcribe(self, transcriber: Transcriber, inspected: InspectedOriginal) -> Transcript:
        original = inspected.original
        with tempfile.TemporaryDirectory(dir=self._scratch, prefix="gristmill-speech-") as folder:
            path = original.path or Path(folder) / "original"
            if original.path is None:
                await asyncio.to_thread(path.write_bytes, original.data)
            return await transcriber.transcribe(path, original.name)

    async def _store(self, task: IndexTask, content: VersionContent, transcript: Transcript) -> bool:
        """Store the transcript; silence too, so that it is not sent again."""
        parts: list[NewContentPart] = []
        start = 0
        for number, paragraph in enumerate(transcript.paragraphs, 1):
            text = paragraph.markdown.replace("\0", "")
            parts.append(NewContentPart(content.digest, start, text, number if paragraph.time_code else None))
            start += len(text)
        version = NewVersion(
            task.item.id,
            task.version,
            content.digest,
            task.recipe,
            content.page_blob,
            dict(content.validators),
        )
        async with self._db.transaction() as tx:
            await catalog.lock_base_shared(tx, task.base.id)
            await jobs.fence(tx, task.job)
            if not await catalog.is_wanted(tx, task.item.id, task.version):
                return False
            if content.digest not in await contents.ensure_contents(tx, [content.digest]):
                await contents.insert_content_parts(tx, parts)
                fields = self._fields(transcript)
                warnings = [] if parts else [NoText.code]
                await contents.mark_contents_complete(
                    tx, {content.digest: (start, warnings)}, {content.digest: fields}
                )
            await contents.save_versions(tx, [version])
        return True

    def _fields(self, transcript: Transcript) -> dict[str, object]:
        """What is known of the recording: its language and its length."""
        fields: dict[str, object] = {}
        if language := language_code_of(transcript.language or ""):
            fields["language"] = language
        if transcript.seconds is not None:
            fields["duration"] = time_code(transcript.seconds)
        return fields

    def _log_cost(self, task: IndexTask, transcript: Transcript) -> None:
        if self._transcriber is not None and transcript.seconds is not None:
            cost = self._transcriber.cost(transcript.seconds)
            log.info(
                "transcribed",
                extra={"item": task.item.id, "seconds": round(transcript.seconds), "cost": cost},
            )
