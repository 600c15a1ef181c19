"""The tools, one module for each sort of server."""

from bench.connectors_real.tool import RealTool
from bench.connectors_real.tools.buckets import AzureTool, GcsTool, S3Tool
from bench.connectors_real.tools.doubles import GoogleDriveDouble, GraphDouble, LinearDouble, NotionDouble
from bench.connectors_real.tools.emulated import GoogleDriveTool, SlackTool
from bench.connectors_real.tools.files import ApacheTool, GiteaTool, GitTool, WsgiDavTool
from bench.connectors_real.tools.mail import ImapTool
from bench.connectors_real.tools.wiki import MediaWikiTool

TOOLS: dict[str, type[RealTool]] = {
    tool.name: tool
    for tool in (
        S3Tool,
        AzureTool,
        GcsTool,
        GitTool,
        GiteaTool,
        WsgiDavTool,
        ApacheTool,
        ImapTool,
        MediaWikiTool,
        SlackTool,
        GoogleDriveTool,
        GoogleDriveDouble,
        GraphDouble,
        NotionDouble,
        LinearDouble,
    )
}
